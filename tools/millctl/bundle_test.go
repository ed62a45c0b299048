package main

import (
	"bytes"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	pt "millwright/planner/plannertest"
)

func TestBundle(t *testing.T) {
	dir := observed(t, pt.Pool("general"))
	file := filepath.Join(t.TempDir(), "incident")
	expect := func(want string, args ...string) {
		t.Helper()
		var out bytes.Buffer
		c := command()
		c.SetOut(&out)
		c.SetArgs(args)
		text := ""
		if err := c.ExecuteContext(t.Context()); err != nil {
			text = err.Error()
		}
		if text = out.String() + text; !strings.Contains(text, want) {
			t.Fatalf("millctl %s: %s, want %q", strings.Join(args, " "), text, want)
		}
	}
	at := []string{"--cluster-name", "test", "--data-dir", dir}
	expect("stopped: voluntary", append(at, "stop", "voluntary", "--reason", "a look")...)
	expect("missing -o", append(at, "bundle", "--since", "1h")...)
	expect("missing --since", append(at, "bundle", "-o", file)...)
	expect("must be KIND/NAME", append(at, "bundle", "--object", "planet/mars", "-o", file)...)
	expect("the log has nothing about it", append(at, "bundle", "--object", "node/nowhere", "-o", file)...)
	if left, err := os.ReadDir(filepath.Dir(file)); err != nil || len(left) > 0 {
		t.Errorf("%v is left, %v", left, err)
	}
	expect("0 decisions replayed, 0 divergences", append(at, "bundle", "--since", "1h", "-o", file)...)
	expect("is there already", append(at, "bundle", "--since", "1h", "-o", file)...)
	if err := os.RemoveAll(dir); err != nil {
		t.Fatal(err)
	}
	expect("0 decisions replayed, 0 divergences", "replay", "--bundle", file)
	if info, err := os.Stat(file); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("%v, %v", info.Mode(), err)
	}
	expect("none of the others can be", "replay", "--bundle", file, "--save", "x")
}

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
		err := writeWhole(file, write)
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
	if err := writeWhole(filepath.Join(dir, "nowhere", "incident"), func(io.Writer) error { return nil }); err == nil || !strings.Contains(err.Error(), "nowhere") {
		t.Errorf("no such directory: %v", err)
	}
}
