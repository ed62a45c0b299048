package sources

import (
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// Whatever ends the writing of a file, nothing of it stays, and the error names the file.
func TestNoHalfBundleStays(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "incident")
	for about, write := range map[string]func(io.Writer) error{
		"the disk is full at once": func(io.Writer) error { return syscall.ENOSPC },
		"the disk is full halfway": func(w io.Writer) error {
			_, err := w.Write(make([]byte, 100_000))
			return errors.Join(err, syscall.ENOSPC)
		},
		"the disk is full at the end": func(w io.Writer) error {
			_, err := w.Write([]byte("all"))
			return errors.Join(err, w.(*os.File).Close()) // so that flushing fails
		},
		"somebody made such a directory meanwhile": func(io.Writer) error { return os.MkdirAll(filepath.Join(file, "x"), 0o700) },
	} {
		err := WriteWhole(file, write)
		if err == nil || !strings.Contains(err.Error(), "write bundle "+file) {
			t.Errorf("%s: %v", about, err)
		}
		left, err := filepath.Glob(file + ".*")
		if err != nil || len(left) > 0 {
			t.Errorf("%s: %v is left, %v", about, left, err)
		}
		if info, err := os.Stat(file); err == nil && !info.IsDir() {
			t.Errorf("%s: the file is there", about)
		}
		if err := os.RemoveAll(file); err != nil {
			t.Fatal(err)
		}
	}
	if err := WriteWhole(filepath.Join(dir, "nowhere", "incident"), func(io.Writer) error { return nil }); err == nil || !strings.Contains(err.Error(), "nowhere") {
		t.Errorf("no such directory: %v", err)
	}
}
