package main

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

func main() {
	faults, _, err := check(".")
	if err != nil {
		faults = append(faults, err.Error())
	}
	for _, f := range faults {
		fmt.Fprintln(os.Stderr, f)
	}
	if len(faults) > 0 {
		os.Exit(1)
	}
}

// check returns what is wrong with the citations below top, and how often each page is cited.
func check(top string) (faults []string, found map[string]int, err error) {
	headings, err := Headings(top)
	if err != nil {
		return nil, nil, err
	}
	files, err := sources(top)
	if err != nil {
		return nil, nil, err
	}
	found = map[string]int{}
	for _, file := range files {
		text, err := os.ReadFile(filepath.Join(top, file))
		if err != nil {
			return nil, nil, fmt.Errorf("read %s: %w", file, err)
		}
		for _, c := range In(file, string(text)) {
			found[c.Page]++
			switch {
			case c.Page == "":
				faults = append(faults, fmt.Sprintf("%v: say which page it is of, as in %q", c, "scheduling §"+c.Section))
			case !slices.Contains(headings[c.Page], c.Section):
				faults = append(faults, fmt.Sprintf("%v: %s has no such heading", c, Pages[c.Page]))
			}
		}
	}
	return faults, found, nil
}

// sources are the files that cite, from the top of the repository.
func sources(top string) (files []string, err error) {
	err = filepath.WalkDir(top, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		name, _ := filepath.Rel(top, path)
		hidden := strings.HasPrefix(d.Name(), ".") && name != "."
		switch {
		case d.IsDir() && (hidden || name == "bin" || name == "tools/citations"):
			return filepath.SkipDir
		case !d.IsDir() && (slices.Contains([]string{".go", ".md", ".proto"}, filepath.Ext(name)) || isRule(name)):
			files = append(files, name)
		}
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("list the files below %s: %w", top, err)
	}
	return files, nil
}

// isRule reports that a file is a script of rules.
func isRule(name string) bool { return strings.Contains(filepath.ToSlash(name), "/testdata/rules/") }
