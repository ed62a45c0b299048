package kube

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"maps"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"millwright/events"
)

// readElsewhere are fields that planners read without naming them, or that stand for others.
var readElsewhere = map[string]string{
	"MatchLabels":                "metav1.LabelSelectorAsSelector reads it",
	"Controller":                 "metav1.GetControllerOf reads it",
	"StrVal":                     "intstr reads a budget's amount",
	"IntVal":                     "intstr reads a budget's amount",
	"Raw":                        "the duration as its object spells it: it is encoded by it",
	"DeletionGracePeriodSeconds": "goes with the deletion timestamp",
	"BlockOwnerDeletion":         "goes with the owner reference",
	"TimeAdded":                  "goes with the taint",
	"TolerationSeconds":          "goes with the toleration",
	"ConsolidationPolicy":        "says whether nodes may be consolidated",
}

// TestNoFieldLeavesThatNoPlannerReads looks at every kind, those of AWS too. It goes by names: a field counts
// as read if some planner says .Name of anything.
func TestNoFieldLeavesThatNoPlannerReads(t *testing.T) {
	read := selectors(t, filepath.Join("..", "..", "..", "planner"))
	check := func(t *testing.T, paths map[string]bool) {
		for _, path := range slices.Sorted(maps.Keys(paths)) {
			for _, name := range strings.Split(path, ".")[1:] {
				if !read[name] && readElsewhere[name] == "" {
					t.Errorf("%s leaves, and no planner reads %s", path, name)
				}
			}
		}
	}
	for _, k := range allKinds() {
		t.Run(k.kind.String(), func(t *testing.T) {
			object := reflect.New(reflect.TypeOf(k.example).Elem()).Interface().(runtime.Object)
			newFiller().fill(object)
			trimmed, err := Trim(object)
			if err != nil {
				t.Fatal(err)
			}
			paths := map[string]bool{}
			addFields(reflect.ValueOf(trimmed), k.kind.String(), paths)
			check(t, paths)
		})
	}
	for _, object := range []any{&events.Catalog{}, &events.CatalogRef{}, &events.Prices{}, &events.InstanceState{}, &events.Interruption{}} {
		t.Run(reflect.TypeOf(object).Elem().Name(), func(t *testing.T) {
			newFiller().fill(object)
			paths := map[string]bool{}
			addFields(reflect.ValueOf(object), reflect.TypeOf(object).Elem().Name(), paths)
			check(t, paths)
		})
	}
}

// selectors are the names that planners, but not their test helpers, select of something.
func selectors(t *testing.T, root string) map[string]bool {
	t.Helper()
	names := map[string]bool{}
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") || strings.Contains(path, "plannertest") {
			return err
		}
		file, err := parser.ParseFile(token.NewFileSet(), path, nil, 0)
		if err != nil {
			return err
		}
		ast.Inspect(file, func(n ast.Node) bool {
			if s, ok := n.(*ast.SelectorExpr); ok {
				names[s.Sel.Name] = true
			}
			return true
		})
		return nil
	})
	if err != nil || len(names) < 500 {
		t.Fatalf("%d names are selected under %s: %v", len(names), root, err)
	}
	return names
}

// addFields adds the paths of the fields that are set; embedded ones do not count as a step.
func addFields(v reflect.Value, path string, paths map[string]bool) {
	switch v.Interface().(type) {
	case resource.Quantity, metav1.Time, time.Time:
		paths[path] = true
		return
	}
	switch v.Kind() {
	case reflect.Pointer:
		if !v.IsNil() {
			addFields(v.Elem(), path, paths)
		}
	case reflect.Struct:
		for i := range v.NumField() {
			switch f := v.Type().Field(i); {
			case !f.IsExported() || v.Field(i).IsZero():
			case f.Anonymous:
				addFields(v.Field(i), path, paths)
			default:
				addFields(v.Field(i), path+"."+f.Name, paths)
			}
		}
	case reflect.Slice:
		for i := range v.Len() {
			addFields(v.Index(i), path, paths)
		}
	default:
		if !v.IsZero() {
			paths[path] = true
		}
	}
}
