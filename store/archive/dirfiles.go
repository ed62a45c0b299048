package archive

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
)

// Directory keeps the files of an archive in a directory, which the first Lock makes.
type Directory string

// Location implements Files.
func (d Directory) Location() string { return string(d) }

func (d Directory) path(name string) string { return filepath.Join(string(d), name) }

// List implements Files.
func (d Directory) List(context.Context) ([]File, error) {
	entries, err := os.ReadDir(string(d))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("list archive: %w", err)
	}
	var list []File
	for _, e := range entries {
		if info, err := e.Info(); err == nil && info.Mode().IsRegular() {
			list = append(list, File{Name: e.Name(), Bytes: info.Size()})
		}
	}
	return list, nil
}

// Open implements Files.
func (d Directory) Open(_ context.Context, name string) (io.ReadCloser, error) {
	return os.Open(d.path(name))
}

// Scratch implements Files: a file gets its name by a rename.
func (d Directory) Scratch() (string, error) { return string(d), nil }

// Publish implements Files. Lock keeps others from taking the name between look and rename.
func (d Directory) Publish(_ context.Context, path, name string) error {
	if exists(d.path(name)) {
		return fmt.Errorf("publish %s: %w", d.path(name), fs.ErrExist)
	}
	if err := os.Rename(path, d.path(name)); err != nil {
		return err
	}
	return syncDir(string(d))
}

// Swap implements Files.
func (d Directory) Swap(_ context.Context, name string, old, data []byte) error {
	now, err := os.ReadFile(d.path(name))
	switch {
	case err != nil && !errors.Is(err, fs.ErrNotExist):
		return err
	case (err == nil) != (old != nil) || !bytes.Equal(now, old):
		return fmt.Errorf("replace %s: %w", d.path(name), fs.ErrExist)
	}
	part, err := os.CreateTemp(string(d), "*"+partSuffix)
	if err != nil {
		return err
	}
	_, err = part.Write(data)
	err = errors.Join(err, part.Sync(), part.Close())
	if err == nil {
		err = os.Rename(part.Name(), d.path(name))
	}
	if err != nil {
		_ = os.Remove(part.Name()) // half of it is of no use
		return err
	}
	return syncDir(string(d))
}

// Remove implements Files.
func (d Directory) Remove(_ context.Context, name string) error {
	if err := os.Remove(d.path(name)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

// Move implements Files.
func (d Directory) Move(_ context.Context, name, folder string) error {
	to := filepath.Join(d.path(folder), name)
	if exists(to) {
		return fmt.Errorf("move to %s: %w", to, fs.ErrExist)
	}
	if err := os.MkdirAll(d.path(folder), 0o700); err != nil {
		return err
	}
	if err := os.Rename(d.path(name), to); err != nil {
		return err
	}
	return errors.Join(syncDir(d.path(folder)), syncDir(string(d)))
}

// Lock implements Files for the processes of one machine, and removes what a crash left half written.
func (d Directory) Lock(context.Context) (unlock func(), exclusive bool, err error) {
	if err := os.MkdirAll(string(d), 0o700); err != nil {
		return nil, false, err
	}
	f, err := os.OpenFile(d.path("lock"), os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, false, err
	}
	if err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		return nil, false, errors.Join(fmt.Errorf("another process archives: %w", err), f.Close())
	}
	if err := d.clearParts(); err != nil {
		return nil, false, errors.Join(err, f.Close())
	}
	return func() { _ = f.Close() }, true, nil
}

func (d Directory) clearParts() error {
	entries, err := os.ReadDir(string(d))
	if err != nil {
		return err
	}
	for _, e := range entries {
		if !strings.HasSuffix(e.Name(), partSuffix) {
			continue
		}
		if err := d.Remove(context.Background(), e.Name()); err != nil {
			return err
		}
	}
	return nil
}

func exists(path string) bool {
	_, err := os.Lstat(path)
	return err == nil
}

// syncDir makes the names in a directory durable.
func syncDir(path string) error {
	d, err := os.Open(path)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}
