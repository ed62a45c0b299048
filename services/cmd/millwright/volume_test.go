package main

import (
	"path/filepath"
	"testing"
)

func TestSameVolume(t *testing.T) {
	dir := t.TempDir()
	for name, c := range map[string]struct {
		other string
		want  bool
	}{
		"a directory below it":             {filepath.Join(dir, "archive"), true},
		"one that is not there yet":        {filepath.Join(dir, "a", "b", "c"), true},
		"another file system":              {"/proc", false},
		"a path through what is no folder": {"/proc/version/archive", false},
	} {
		t.Run(name, func(t *testing.T) {
			if got := sameVolume(dir, c.other); got != c.want {
				t.Errorf("%s and %s: %v", dir, c.other, got)
			}
		})
	}
}
