package sbom

import (
	"bytes"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/CycloneDX/cyclonedx-go"
)

// program builds a small command of this repository that has dependencies.
func program(t *testing.T) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "program")
	cmd := exec.CommandContext(t.Context(), "go", "build", "-trimpath", "-buildvcs=false", "-o", file, "./testdata/program")
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	return file
}

// Every module that the linker has put into the binary is in the bill, by what `go version -m` says, and
// nothing else is.
func TestTheBillNamesWhatIsInTheBinary(t *testing.T) {
	file := program(t)
	data, err := Write("image", "v1", file)
	if err != nil {
		t.Fatal(err)
	}
	again, err := Write("image", "v1", file)
	if err != nil || !bytes.Equal(data, again) {
		t.Errorf("the same binary gives another bill: %v", err)
	}
	var bom cyclonedx.BOM
	if err := json.Unmarshal(data, &bom); err != nil {
		t.Fatal(err)
	}
	out, err := exec.CommandContext(t.Context(), "go", "version", "-m", file).Output()
	if err != nil {
		t.Fatal(err)
	}
	var want []string
	for _, line := range strings.Split(string(out), "\n") {
		if f := strings.Fields(line); len(f) > 2 && f[0] == "dep" {
			want = append(want, "pkg:golang/"+f[1]+"@"+f[2])
		}
	}
	if len(want) == 0 {
		t.Fatalf("the program has no dependencies:\n%s", out)
	}
	var got, programs []string
	for _, c := range *bom.Components {
		switch {
		case c.Type == cyclonedx.ComponentTypeApplication:
			programs = append(programs, c.Name+" "+(*c.Hashes)[0].Value)
		case c.Name != "std" && c.Name != "millwright":
			got = append(got, c.PackageURL)
			if c.Properties == nil || !strings.HasPrefix((*c.Properties)[0].Value, "h1:") {
				t.Errorf("%s has no checksum", c.Name)
			}
		}
	}
	slices.Sort(want)
	if !slices.Equal(got, want) {
		t.Errorf("modules %v, want %v", got, want)
	}
	if len(programs) != 1 || len(programs[0]) != len("program ")+64 {
		t.Errorf("programs %v", programs)
	}
}

func TestWhatIsNoGoProgramIsRefusedByName(t *testing.T) {
	file := filepath.Join(t.TempDir(), "script")
	if err := os.WriteFile(file, []byte("#!/bin/sh\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, files := range [][]string{{file}, {"/nowhere"}, nil} {
		if _, err := Write("image", "v1", files...); err == nil || len(files) > 0 && !strings.Contains(err.Error(), files[0]) {
			t.Errorf("%v: %v", files, err)
		}
	}
}
