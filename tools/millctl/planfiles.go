package main

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"millwright/store/audit/plan"
)

// suffixes of the files in a directory that count.
var suffixes = []string{".yaml", ".yml", ".json"}

// listSources lists the files in the order given, those of a directory by path. The catalogue, which may lie
// among them, is left out.
func listSources(paths []string, catalog string, stdin io.Reader) ([]plan.Source, error) {
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
			list = append(list, plan.Source{Name: "standard input", Open: func() (io.ReadCloser, error) { return io.NopCloser(stdin), nil }})
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

func filesAt(path string, skip fs.FileInfo) ([]plan.Source, error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, &plan.InputError{File: path, Err: errors.Unwrap(err)}
	}
	if !info.IsDir() {
		return []plan.Source{fileSource(path)}, nil
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
			list = append(list, fileSource(p))
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

func fileSource(path string) plan.Source {
	return plan.Source{Name: path, Open: func() (io.ReadCloser, error) { return os.Open(path) }}
}
