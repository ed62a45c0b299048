package archtest

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// bannedCalls may not appear under planner/; the value says what to use instead.
var bannedCalls = map[string]string{
	"time.Now": "Snapshot.Now", "time.Since": "Snapshot.Now.Sub", "time.Until": "Sub with Snapshot.Now",
	"time.Sleep": "nothing: planners do not wait", "time.After": "nothing: planners do not wait",
	"time.NewTimer": "nothing: planners do not wait", "time.NewTicker": "nothing: planners do not wait",
	"os.Getenv": "planner.Options", "fmt.Print": "an Explanation", "fmt.Printf": "an Explanation", "fmt.Println": "an Explanation",
	"maps.Keys": "slices.Sorted(maps.Keys(m))", "maps.Values": "a slice in a fixed order",
}

func TestPlannersArePure(t *testing.T) {
	root := filepath.Join("..", "..", "planner")
	files := 0
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
			return nil
		}
		files++
		for _, fault := range impurities(path) {
			t.Error(fault)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if files == 0 {
		t.Fatal("no file looked at")
	}
}

// impurities lists goroutines, selects and banned calls of a file.
func impurities(path string) []string {
	src, err := os.ReadFile(path)
	if err != nil {
		return []string{err.Error()}
	}
	set := token.NewFileSet()
	file, err := parser.ParseFile(set, path, src, 0)
	if err != nil {
		return []string{err.Error()}
	}
	sorted := sortedKeyCalls(file)
	var faults []string
	fault := func(n ast.Node, format string, args ...any) {
		faults = append(faults, fmt.Sprintf("%s: %s", set.Position(n.Pos()), fmt.Sprintf(format, args...)))
	}
	ast.Inspect(file, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.GoStmt:
			fault(n, "goroutine: planners are single-threaded")
		case *ast.SelectStmt:
			fault(n, "select: its choice is random")
		case *ast.SelectorExpr:
			name := selectorName(n)
			if instead, banned := bannedCalls[name]; banned && !sorted[n] {
				fault(n, "%s: use %s", name, instead)
			}
		}
		return true
	})
	return faults
}

// sortedKeyCalls are the calls of maps.Keys and maps.Values directly inside slices.Sorted, which are fine.
func sortedKeyCalls(file *ast.File) map[*ast.SelectorExpr]bool {
	ok := map[*ast.SelectorExpr]bool{}
	ast.Inspect(file, func(n ast.Node) bool {
		call, isCall := n.(*ast.CallExpr)
		if !isCall || len(call.Args) == 0 {
			return true
		}
		outer, isSel := call.Fun.(*ast.SelectorExpr)
		if !isSel || !strings.HasPrefix(selectorName(outer), "slices.Sorted") {
			return true
		}
		if inner, isCall := call.Args[0].(*ast.CallExpr); isCall {
			if sel, isSel := inner.Fun.(*ast.SelectorExpr); isSel {
				ok[sel] = true
			}
		}
		return true
	})
	return ok
}

func selectorName(s *ast.SelectorExpr) string {
	if x, ok := s.X.(*ast.Ident); ok {
		return x.Name + "." + s.Sel.Name
	}
	return ""
}

func TestImpuritiesAreFound(t *testing.T) {
	cases := map[string]struct {
		body string
		want int
	}{
		"a clock":             {"_ = time.Now()", 1},
		"a goroutine":         {"go func() {}()", 1},
		"keys in map order":   {"_ = maps.Keys(m)", 1},
		"keys sorted":         {"_ = slices.Sorted(maps.Keys(m))", 0},
		"a select":            {"select {}", 1},
		"ordinary arithmetic": {"_ = 1 + 1", 0},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "x.go")
			if err := os.WriteFile(path, []byte("package x\nfunc f(m map[string]int) {\n"+c.body+"\n}\n"), 0o600); err != nil {
				t.Fatal(err)
			}
			if got := impurities(path); len(got) != c.want {
				t.Errorf("found %v, want %d", got, c.want)
			}
		})
	}
}
