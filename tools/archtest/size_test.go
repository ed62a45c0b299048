package archtest

import (
	"bytes"
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"strings"
	"testing"
)

// Anything larger than this is really two things: split it.
const (
	functionLinesMax = 70
	methodsMax       = 60
	packageLinesMax  = 4000
)

// TestNothingIsTooLarge checks functions by lines, types by methods and packages by lines. The package api,
// tests and generated files are exempt.
func TestNothingIsTooLarge(t *testing.T) {
	methods, lines := map[string]int{}, map[string]int{}
	for path, src := range goFiles(t) {
		if generatedFile.Match(src) || strings.HasSuffix(path, "_test.go") {
			continue
		}
		dir := filepath.ToSlash(filepath.Dir(path))
		lines[dir] += bytes.Count(src, []byte("\n"))
		files := token.NewFileSet()
		f, err := parser.ParseFile(files, path, src, parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		for _, d := range f.Decls {
			fn, ok := d.(*ast.FuncDecl)
			if !ok {
				continue
			}
			if n := files.Position(fn.End()).Line - files.Position(fn.Pos()).Line + 1; n > functionLinesMax {
				t.Errorf("%s: %s has %d lines; at most %d", path, fn.Name.Name, n, functionLinesMax)
			}
			if name := receiver(fn); name != "" {
				methods[dir+"."+name]++
			}
		}
	}
	for name, n := range methods {
		if n > methodsMax {
			t.Errorf("%s has %d methods; at most %d", name, n, methodsMax)
		}
	}
	for dir, n := range lines {
		if n > packageLinesMax && !strings.Contains("/"+dir+"/", "/api/") {
			t.Errorf("%s has %d lines; at most %d", dir, n, packageLinesMax)
		}
	}
}

// receiver is the name of the type that a method is of; "" for a function.
func receiver(fn *ast.FuncDecl) string {
	if fn.Recv == nil || len(fn.Recv.List) != 1 {
		return ""
	}
	of := fn.Recv.List[0].Type
	if star, ok := of.(*ast.StarExpr); ok {
		of = star.X
	}
	if id, ok := of.(*ast.Ident); ok {
		return id.Name
	}
	return ""
}
