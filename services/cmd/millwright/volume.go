package main

import (
	"os"
	"path/filepath"
	"syscall"
)

// sameVolume reports whether two directories, or the existing parts of the paths to them, are on one file
// system.
func sameVolume(a, b string) bool {
	x, okX := device(a)
	y, okY := device(b)
	return okX && okY && x == y
}

func device(path string) (uint64, bool) {
	for {
		info, err := os.Stat(path)
		if err == nil {
			stat, ok := info.Sys().(*syscall.Stat_t)
			if !ok {
				return 0, false
			}
			return uint64(stat.Dev), true
		}
		parent := filepath.Dir(path)
		if parent == path || !os.IsNotExist(err) {
			return 0, false
		}
		path = parent
	}
}
