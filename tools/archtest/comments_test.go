package archtest

import (
	"bytes"
	"fmt"
	"go/scanner"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"
)

const (
	// commentColumnsMax is where comments wrap (.editorconfig); a tab counts as four columns.
	commentColumnsMax = 110
	tabColumns        = 4
)

var (
	generatedFile = regexp.MustCompile(`(?m)^// Code generated .* DO NOT EDIT\.$`)
	// preformatted are lines that cannot be wrapped: directives, markers, tables and code, and list items.
	preformatted = regexp.MustCompile(`^//(\S|\s*\+|\t|  )`)
)

// describesCRDs lists the packages of API types: the descriptions in the CRDs are generated from their
// comments.
var describesCRDs = []string{
	"api/autoscaling/v1beta1",
	"api/karpenter/v1",
	"api/karpenter/v1alpha1",
	"api/karpenter/v1beta1",
	"api/karpenteraws/v1",
	"api/karpenteraws/v1beta1",
	"api/millwright/v1alpha1",
}

// TestCommentsWrap: a comment on a line of its own is no wider than 110 columns.
func TestCommentsWrap(t *testing.T) {
	for path, src := range goFiles(t) {
		if generatedFile.Match(src) || slices.Contains(describesCRDs, filepath.ToSlash(filepath.Dir(path))) {
			continue
		}
		for _, line := range wideComments(src) {
			t.Errorf("%s: comment is wider than %d columns", fmt.Sprintf("%s:%d", path, line), commentColumnsMax)
		}
	}
}

func TestWideComments(t *testing.T) {
	long := strings.Repeat("word ", 30)
	for about, c := range map[string]struct {
		src  string
		want []int
	}{
		"a comment that fits":      {"package a\n\n// short\nvar A int\n", nil},
		"a comment that is wide":   {"package a\n\n// " + long + "\nvar A int\n", []int{3}},
		"a marker and a table":     {"package a\n\n// +marker:" + long + "\n//\t" + long + "\n//nolint:" + long + "\nvar A int\n", nil},
		"behind code":              {"package a\n\nvar A int // " + long + "\n", nil},
		"in a text":                {"package a\n\nvar A = `\n// " + long + "\n`\n", nil},
		"tabs count four columns":  {"package a\n\nfunc f() {\n\t\t// " + strings.Repeat("x", 100) + "\n}\n", []int{4}},
		"letters count, not bytes": {"package a\n\n// " + strings.Repeat("§", 100) + "\nvar A int\n", nil},
	} {
		if got := wideComments([]byte(c.src)); !slices.Equal(got, c.want) {
			t.Errorf("%s: lines %v, want %v", about, got, c.want)
		}
	}
}

// wideComments returns the lines of comments that are too wide.
func wideComments(src []byte) (wide []int) {
	files := token.NewFileSet()
	file := files.AddFile("", -1, len(src))
	var s scanner.Scanner
	s.Init(file, src, nil, scanner.ScanComments)
	lines := bytes.Split(src, []byte("\n"))
	for {
		pos, tok, text := s.Scan()
		if tok == token.EOF {
			return wide
		}
		if tok != token.COMMENT || !strings.HasPrefix(text, "//") || preformatted.MatchString(text) {
			continue
		}
		n := file.Line(pos)
		line := string(lines[n-1])
		columns := utf8.RuneCountInString(line) + (tabColumns-1)*strings.Count(line, "\t")
		if strings.HasPrefix(strings.TrimLeft(line, "\t "), "//") && columns > commentColumnsMax {
			wide = append(wide, n)
		}
	}
}

// goFiles returns the Go files of the repository by path.
func goFiles(t *testing.T) map[string][]byte {
	t.Helper()
	found := map[string][]byte{}
	root := os.DirFS("../..")
	err := fs.WalkDir(root, ".", func(path string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && path != "." && (strings.HasPrefix(d.Name(), ".") || d.Name() == "bin" || d.Name() == "testdata"):
			return fs.SkipDir
		case !d.IsDir() && strings.HasSuffix(path, ".go"):
			found[path], err = fs.ReadFile(root, path)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return found
}
