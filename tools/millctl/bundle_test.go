package main

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"strings"
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
	expect("needs --pseudonymise", append(at, "bundle", "--since", "1h", "-o", file+"2", "--pseudonyms-file", file+"3")...)
	expect("--pseudonyms-file: "+file+" is there already", append(at, "bundle", "--since", "1h", "-o", file+"2", "--pseudonymise", "--pseudonyms-file", file)...)
	expect("names are pseudonyms", append(at, "bundle", "--since", "1h", "-o", file+"2", "--pseudonymise", "--pseudonyms-file", file+"3")...)
	table, err := os.ReadFile(file + "3")
	if info, statErr := os.Stat(file + "3"); errors.Join(err, statErr) != nil || info.Mode().Perm() != 0o600 || !strings.Contains(string(table), "a look") {
		t.Errorf("%v %v: %s", err, statErr, table)
	}
	if left, err := os.ReadDir(filepath.Dir(file)); err != nil || len(left) != 3 {
		t.Errorf("%v is left, %v", left, err)
	}
	expect("is there already", append(at, "bundle", "--since", "1h", "-o", file)...)
	if err := os.RemoveAll(dir); err != nil {
		t.Fatal(err)
	}
	expect("0 decisions replayed, 0 divergences", "replay", "--bundle", file)
	expect("0 decisions replayed, 0 divergences", "replay", "--bundle", file, "--record", "2")
	expect("the bundle is about records 1 to 2, and not about record 3", "replay", "--bundle", file, "--record", "3")
	if info, err := os.Stat(file); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("%v, %v", info.Mode(), err)
	}
	expect("none of the others can be", "replay", "--bundle", file, "--save", "x")
}
