package rights

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// DirEnv names the environment variable with the directory of the recordings; unset, nothing is recorded.
const DirEnv = "E2E_RIGHTS"

// wholeFile is written when a run of all end-to-end tests has ended.
const wholeFile = "whole-suite"

// Record what a test made accounts use, in a file of its own: a test may start several API servers, and run
// once more.
func Record(dir, test string, used Used) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	f, err := os.CreateTemp(dir, strings.ReplaceAll(test, "/", "_")+"-*.txt")
	if err != nil {
		return err
	}
	defer f.Close()
	for r := range used {
		if _, err := fmt.Fprintln(f, r); err != nil {
			return err
		}
	}
	return f.Close()
}

// RecordWhole says that all tests have run.
func RecordWhole(dir string) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(dir, wholeFile), nil, 0o644)
}

// Read all recordings; whole is whether they are of the whole suite.
func Read(dir string) (used Used, whole bool, err error) {
	files, err := filepath.Glob(filepath.Join(dir, "*.txt"))
	if err != nil {
		return nil, false, err
	}
	used = Used{}
	for _, file := range files {
		data, err := os.ReadFile(file)
		if err != nil {
			return nil, false, err
		}
		for line := range strings.Lines(string(data)) {
			words := strings.Fields(line)
			if len(words) != 3 {
				return nil, false, fmt.Errorf("%s: %q is no right", file, line)
			}
			used[Parse(words[0], words[1], words[2])] = true
		}
	}
	_, err = os.Stat(filepath.Join(dir, wholeFile))
	return used, err == nil, nil
}
