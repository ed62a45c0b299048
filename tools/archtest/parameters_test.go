package archtest

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"slices"
	"testing"
)

// parametersMax bounds the parameters of an exported function or method, not counting receiver and context.
// With more, callers cannot tell which nil is which; such a function takes a struct with named fields
// instead.
const parametersMax = 5

// TestExportedFunctionsTakeFewParameters covers methods of interfaces too.
func TestExportedFunctionsTakeFewParameters(t *testing.T) {
	for path, src := range goFiles(t) {
		if generatedFile.Match(src) {
			continue
		}
		for _, problem := range longParameterLists(t, path, src) {
			t.Error(problem)
		}
	}
}

func TestLongParameterLists(t *testing.T) {
	for about, c := range map[string]struct {
		src  string
		want []string
	}{
		"five parameters":              {"func F(a, b, c, d, e int) {}", nil},
		"six parameters":               {"func F(a, b, c, d, e, f int) {}", []string{"a.go:3: F takes 6 parameters; at most 5"}},
		"a context does not count":     {"func F(ctx context.Context, a, b, c, d, e int) {}", nil},
		"without names":                {"func F(int, int, int, string, string, string) {}", []string{"a.go:3: F takes 6 parameters; at most 5"}},
		"a method":                     {"func (x *X) F(a, b, c, d, e int, more ...int) {}", []string{"a.go:3: F takes 6 parameters; at most 5"}},
		"a method of an interface":     {"type I interface{ F(a, b, c, d, e, f int) }", []string{"a.go:3: F takes 6 parameters; at most 5"}},
		"what is not exported is free": {"func f(a, b, c, d, e, f int) {}\ntype i interface{ f(a, b, c, d, e, f int) }", nil},
	} {
		t.Run(about, func(t *testing.T) {
			if got := longParameterLists(t, "a.go", []byte("package a\n\n"+c.src+"\n")); !slices.Equal(got, c.want) {
				t.Errorf("%q, want %q", got, c.want)
			}
		})
	}
}

// longParameterLists names the exported functions of a file, and the methods of its interfaces, that have too
// many parameters.
func longParameterLists(t *testing.T, path string, src []byte) (problems []string) {
	t.Helper()
	files := token.NewFileSet()
	f, err := parser.ParseFile(files, path, src, parser.SkipObjectResolution)
	if err != nil {
		t.Fatal(err)
	}
	check := func(name *ast.Ident, fn *ast.FuncType) {
		if n := parameters(fn); name.IsExported() && n > parametersMax {
			problems = append(problems, fmt.Sprintf("%s:%d: %s takes %d parameters; at most %d", path, files.Position(name.Pos()).Line, name.Name, n, parametersMax))
		}
	}
	ast.Inspect(f, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.FuncDecl:
			check(n.Name, n.Type)
		case *ast.InterfaceType:
			for _, m := range n.Methods.List {
				if fn, ok := m.Type.(*ast.FuncType); ok {
					check(m.Names[0], fn)
				}
			}
		}
		return true
	})
	return problems
}

// parameters counts the parameters of a function, not counting a context.
func parameters(fn *ast.FuncType) (n int) {
	for _, p := range fn.Params.List {
		if s, ok := p.Type.(*ast.SelectorExpr); ok && s.Sel.Name == "Context" {
			continue
		}
		n += max(1, len(p.Names))
	}
	return n
}
