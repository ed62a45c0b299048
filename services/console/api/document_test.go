package api

import (
	"encoding/json"
	"reflect"
	"regexp"
	"strings"
	"testing"
)

// The document has every route with all its parameters, and every reference in it leads somewhere.
func TestTheDocument(t *testing.T) {
	data, err := json.Marshal(document("1.2"))
	if err != nil {
		t.Fatal(err)
	}
	var doc struct {
		OpenAPI string `json:"openapi"`
		Info    struct{ Title, Version string }
		Paths   map[string]map[string]struct {
			OperationID string `json:"operationId"`
			Summary     string
			Parameters  []struct {
				Name, In string
				Required bool
			}
			RequestBody *struct{ Required bool } `json:"requestBody"`
			Responses   map[string]struct {
				Description string
				Content     map[string]json.RawMessage
			}
		}
		Components struct{ Schemas map[string]json.RawMessage }
	}
	if err := json.Unmarshal(data, &doc); err != nil {
		t.Fatal(err)
	}
	if doc.OpenAPI != "3.0.3" || doc.Info.Title == "" || doc.Info.Version != "1.2" {
		t.Errorf("%s, %+v", doc.OpenAPI, doc.Info)
	}
	ids, inPath := map[string]bool{}, regexp.MustCompile(`\{(\w+)\}`)
	for path, item := range doc.Paths {
		for method, op := range item {
			if op.OperationID == "" || ids[op.OperationID] || op.Summary == "" || op.Responses["default"].Description == "" || len(op.Responses["200"].Content) == 0 {
				t.Errorf("%s %s: %+v", method, path, op)
			}
			ids[op.OperationID] = true
			if (method == "post") != (op.RequestBody != nil) {
				t.Errorf("%s %s: body %+v", method, path, op.RequestBody)
			}
			var named []string
			for _, p := range op.Parameters {
				if p.In == "path" && p.Required {
					named = append(named, p.Name)
				}
			}
			if got := inPath.FindAllStringSubmatch(path, -1); len(got) != len(named) {
				t.Errorf("%s: %v in the path, described are %v", path, got, named)
			}
		}
	}
	if len(ids) != len(routes) {
		t.Errorf("%d operations of %d", len(ids), len(routes))
	}
	for _, ref := range regexp.MustCompile(`"\$ref":"#/components/schemas/(\w+)"`).FindAllSubmatch(data, -1) {
		if s := doc.Components.Schemas[string(ref[1])]; len(s) == 0 || string(s) == "null" {
			t.Errorf("%s leads nowhere", ref[0])
		}
	}
}

// A component stands for one type only.
func TestNamesOfComponentsAreUnique(t *testing.T) {
	by := map[string]reflect.Type{}
	var visit func(reflect.Type)
	visit = func(t2 reflect.Type) {
		switch t2.Kind() {
		case reflect.Pointer, reflect.Slice, reflect.Map:
			visit(t2.Elem())
		case reflect.Struct:
			if t2 == timeType {
				return
			}
			if other, known := by[schemaName(t2)]; known {
				if other != t2 {
					t.Errorf("%v and %v have the same name", other, t2)
				}
				return
			}
			by[schemaName(t2)] = t2
			for i := range t2.NumField() {
				if f := t2.Field(i); f.IsExported() && !strings.HasPrefix(f.Tag.Get("json"), "-") {
					visit(f.Type)
				}
			}
		}
	}
	for _, rt := range routes {
		if rt.result != nil {
			visit(reflect.TypeOf(rt.result))
		}
	}
	if len(by) < 10 {
		t.Errorf("%d types", len(by))
	}
}
