package main

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"millwright/tools/clustertest"
)

// makefile is what `make image-archive` builds, and how.
func makefile(t *testing.T) (flags string, architectures, names []string) {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(clustertest.Root(), "Makefile"))
	if err != nil {
		t.Fatal(err)
	}
	find := func(pattern string) string {
		m := regexp.MustCompile(pattern).FindSubmatch(text)
		if m == nil {
			t.Fatalf("the Makefile has no %s", pattern)
		}
		return string(m[1])
	}
	for _, command := range strings.Fields(find(`(?s)image-archive:.*?for c in ([^;]+);`)) {
		name, _, _ := strings.Cut(command, ":")
		names = append(names, name)
	}
	return find(`(?m)^GOFLAGS\s*\+=\s*(.*)$`), strings.Fields(find(`(?m)^ARCHITECTURES\s*:=\s*(.*)$`)), names
}

// build the programs of an image for an architecture in a directory of their own, as make does: each is an
// empty one.
func build(t *testing.T, arch, flags string) string {
	t.Helper()
	root := t.TempDir()
	for file, text := range map[string]string{"go.mod": "module empty\n\ngo 1.26\n", "main.go": "package main\n\nfunc main() { panic(\"where am I?\") }\n"} {
		if err := os.WriteFile(filepath.Join(root, file), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	dir := filepath.Join(root, "linux-"+arch)
	for _, name := range programs {
		cmd := exec.CommandContext(t.Context(), "go", "build", "-o", filepath.Join(dir, name), ".")
		cmd.Dir = root
		cmd.Env = append(os.Environ(), "GOOS=linux", "GOARCH="+arch, "CGO_ENABLED=0", "GOWORK=off", "GOFLAGS="+flags)
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("%v: %s", err, out)
		}
	}
	return dir
}

// archive runs the command, and returns the archive and what was printed, without its name.
func archive(t *testing.T, dirs ...string) ([]byte, string, error) {
	t.Helper()
	file := filepath.Join(t.TempDir(), "image.tar")
	cas := filepath.Join(t.TempDir(), "cas.crt")
	if err := os.WriteFile(cas, []byte("public CAs"), 0o600); err != nil {
		t.Fatal(err)
	}
	cmd := newArchive()
	var out bytes.Buffer
	cmd.SetOut(&out)
	cmd.SetErr(&out)
	cmd.SetArgs(append([]string{"--version", "v1", "--out", file, "--ca-certificates", cas}, dirs...))
	if err := cmd.Execute(); err != nil {
		if _, there := os.Stat(file); there == nil {
			t.Errorf("after %v half an archive stays", err)
		}
		return nil, "", err
	}
	data, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	return data, strings.ReplaceAll(out.String(), file, "FILE"), nil
}

// Who builds the same sources in another directory, by the flags of the Makefile, gets the same archive for
// the same architectures, and its digest is printed.
func TestTwoBuildsGiveOneDigest(t *testing.T) {
	flags, architectures, names := makefile(t)
	if !slices.Equal(names, programs) {
		t.Errorf("make builds %v, the image holds %v", names, programs)
	}
	if !slices.Equal(architectures, []string{"amd64", "arm64"}) {
		t.Errorf("make builds for %v", architectures)
	}
	var archives [2][]byte
	var said [2]string
	for i := range archives {
		var dirs []string
		for _, arch := range architectures {
			dirs = append(dirs, build(t, arch, flags))
		}
		var err error
		if archives[i], said[i], err = archive(t, dirs...); err != nil {
			t.Fatal(err)
		}
	}
	if !bytes.Equal(archives[0], archives[1]) || said[0] != said[1] {
		t.Errorf("another archive of the same sources: %s, %s", said[0], said[1])
	}
	if !regexp.MustCompile(`^image millwright/millwright:v1@sha256:[0-9a-f]{64} in FILE\n$`).MatchString(said[0]) {
		t.Errorf("it prints %q", said[0])
	}
}

// What would not run on its nodes is refused, by its file.
func TestProgramsThatDoNotFitAreRefused(t *testing.T) {
	flags, _, _ := makefile(t)
	dir := build(t, "amd64", flags)
	other := filepath.Join(t.TempDir(), "linux-arm64")
	if err := os.Rename(dir, other); err != nil {
		t.Fatal(err)
	}
	for about, c := range map[string]struct{ dir, want string }{
		"built for another architecture": {other, "linux-arm64/millwright was built with GOARCH=amd64, not arm64"},
		"no architecture":                {t.TempDir(), "is not called linux-ARCH"},
		"nothing was built":              {filepath.Join(t.TempDir(), "linux-amd64"), "linux-amd64/millwright"},
	} {
		if _, _, err := archive(t, c.dir); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v", about, err)
		}
	}
}
