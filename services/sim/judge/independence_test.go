package judge

import (
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// The checks must not take over the errors of what they check: they use nothing of the planners but the
// payloads of records and the formulas of names, and nothing that services fold.
func TestChecksShareNothingWithPlanners(t *testing.T) {
	files, err := filepath.Glob("*.go")
	if err != nil || len(files) == 0 {
		t.Fatal(files, err)
	}
	for _, file := range files {
		if file == "end.go" || strings.HasSuffix(file, "_test.go") {
			continue // end.go asks the fold what is still missing, and replays the log
		}
		f, err := parser.ParseFile(token.NewFileSet(), file, nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		for _, i := range f.Imports {
			if path := strings.Trim(i.Path.Value, `"`); strings.HasPrefix(path, "millwright/planner") && path != "millwright/planner/ledger" {
				t.Errorf("%s imports %s", file, path)
			}
		}
		ast.Inspect(f, func(n ast.Node) bool {
			x, ok := n.(*ast.SelectorExpr)
			if !ok {
				return true
			}
			if of, ok := x.X.(*ast.Ident); ok && of.Name == "ledger" && (x.Sel.Name == "New" || x.Sel.Name == "Ledger" || x.Sel.Name == "Restore") {
				t.Errorf("%s uses ledger.%s", file, x.Sel.Name)
			}
			if slices.Contains([]string{"reference", "Reference", "world", "World"}, x.Sel.Name) {
				t.Errorf("%s uses what services fold: %s", file, x.Sel.Name)
			}
			return true
		})
	}
}
