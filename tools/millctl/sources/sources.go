// Package sources finds the files that a user names, and reads and writes them.
package sources

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"unicode/utf16"

	"millwright/store/audit/plan"
)

// suffixes of the files in a directory that count.
var suffixes = []string{".yaml", ".yml", ".json"}

// List lists the files in the order given, those of a directory by path. The catalogue, which may lie
// among them, is left out.
func List(paths []string, catalog string, stdin io.Reader) ([]plan.Source, error) {
	var skip fs.FileInfo
	if catalog != "" {
		var err error
		if skip, err = os.Stat(catalog); err != nil {
			return nil, &plan.InputError{File: catalog, Err: err}
		}
	}
	var list []plan.Source
	for _, p := range paths {
		if p == "-" {
			list = append(list, plan.Source{Name: "standard input", Open: func() (io.ReadCloser, error) { return io.NopCloser(AsUTF8(stdin)), nil }})
			continue
		}
		files, err := filesAt(p, skip)
		if err != nil {
			return nil, err
		}
		list = append(list, files...)
	}
	return list, nil
}

// Kept are the sources as they are read now, to be read again: standard input comes once.
func Kept(list []plan.Source) (out []plan.Source, err error) {
	for _, s := range list {
		in, err := s.Open()
		if err != nil {
			return nil, &plan.InputError{File: s.Name, Err: err}
		}
		text, err := io.ReadAll(in)
		if err = errors.Join(err, in.Close()); err != nil {
			return nil, &plan.InputError{File: s.Name, Err: err}
		}
		out = append(out, plan.Source{Name: s.Name, Open: func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(text)), nil }})
	}
	return out, nil
}

func filesAt(path string, skip fs.FileInfo) ([]plan.Source, error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, &plan.InputError{File: path, Err: errors.Unwrap(err)}
	}
	if !info.IsDir() {
		return []plan.Source{File(path)}, nil
	}
	var list []plan.Source
	err = filepath.WalkDir(path, func(p string, e fs.DirEntry, err error) error {
		if err != nil || e.IsDir() || !slices.Contains(suffixes, strings.ToLower(filepath.Ext(p))) {
			return err
		}
		info, err := os.Stat(p)
		if err != nil {
			return fmt.Errorf("read directory: %w", err)
		}
		if skip == nil || !os.SameFile(info, skip) {
			list = append(list, File(p))
		}
		return nil
	})
	if err != nil {
		return nil, &plan.InputError{File: path, Err: err}
	}
	if len(list) == 0 {
		return nil, &plan.InputError{File: path, Err: fmt.Errorf("no file in the directory ends in %s", strings.Join(suffixes, ", "))}
	}
	return list, nil
}

// File is a source of one file, read as by AsUTF8.
func File(path string) plan.Source {
	return plan.Source{Name: path, Open: func() (io.ReadCloser, error) {
		f, err := os.Open(path)
		if err != nil {
			return nil, err
		}
		return struct {
			io.Reader
			io.Closer
		}{AsUTF8(f), f}, nil
	}}
}

// AsUTF8 reads what some shells write as UTF-16, with a byte order mark, as UTF-8, and all else as it is.
// Were it not for that, YAML of several documents would be taken for one.
func AsUTF8(r io.Reader) io.Reader {
	in := bufio.NewReader(r)
	mark, err := in.Peek(2)
	if err != nil {
		return in
	}
	var order binary.ByteOrder = binary.LittleEndian
	switch [2]byte(mark) {
	case [2]byte{0xFF, 0xFE}:
	case [2]byte{0xFE, 0xFF}:
		order = binary.BigEndian
	default:
		return in
	}
	text, err := io.ReadAll(in)
	if err != nil {
		return failing{err}
	}
	units := make([]uint16, len(text)/2)
	for i := range units {
		units[i] = order.Uint16(text[2*i:])
	}
	return strings.NewReader(string(utf16.Decode(units[1:])))
}

type failing struct{ err error }

func (f failing) Read([]byte) (int, error) { return 0, f.err }

// WriteWhole makes a file that must not exist, for this user's eyes alone. If anything fails, nothing of it
// stays.
func WriteWhole(file string, write func(io.Writer) error) (err error) {
	if _, err := os.Lstat(file); !errors.Is(err, os.ErrNotExist) {
		return fmt.Errorf("write bundle: %s is there already", file)
	}
	f, err := os.CreateTemp(filepath.Dir(file), filepath.Base(file)+".*")
	if err != nil {
		return fmt.Errorf("write bundle: %w", err)
	}
	err = write(f)
	if err == nil {
		err = f.Sync()
	}
	if err = errors.Join(err, f.Close()); err == nil {
		err = os.Rename(f.Name(), file)
	}
	if err != nil {
		return errors.Join(fmt.Errorf("write bundle %s: %w", file, err), os.Remove(f.Name()))
	}
	return nil
}
