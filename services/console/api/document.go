package api

import (
	"cmp"
	"encoding/json"
	"net/http"
	"reflect"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/resource"
)

// document is the OpenAPI document of the routes: schemas follow from the types that are sent.
func document(version string) map[string]any {
	schemas := map[string]any{}
	paths := map[string]any{}
	for i := range routes {
		rt := &routes[i]
		path := Prefix + strings.ReplaceAll(rt.path, "...}", "}")
		item, _ := paths[path].(map[string]any)
		if item == nil {
			item = map[string]any{}
			paths[path] = item
		}
		item[strings.ToLower(rt.method)] = operation(rt, schemas)
	}
	return map[string]any{
		"openapi": "3.0.3",
		"info": map[string]any{"title": "Millwright console", "version": version,
			"description": "What Millwright sees, decides and does, and why. Tokens are those of the cluster's API server."},
		"paths": paths,
		"components": map[string]any{"schemas": schemas,
			"securitySchemes": map[string]any{"bearer": map[string]any{"type": "http", "scheme": "bearer"}}},
		"security": []any{map[string]any{"bearer": []any{}}},
	}
}

func operation(rt *route, schemas map[string]any) map[string]any {
	op := map[string]any{"operationId": rt.id, "summary": rt.summary}
	if rt.open {
		op["security"] = []any{}
	} else {
		op["description"] = "Needs the right to " + rt.right.String() + "."
	}
	list := []any{}
	for _, p := range rt.parameters {
		list = append(list, rt.describe(p))
	}
	if len(list) > 0 {
		op["parameters"] = list
	}
	if body := cmp.Or(rt.body, rt.question); body != nil {
		op["requestBody"] = map[string]any{"required": true, "content": content("application/json", schemaOf(reflect.TypeOf(body), schemas))}
	}
	success := map[string]any{"description": "Done"}
	switch {
	case rt.stream != nil:
		success["content"] = content(cmp.Or(rt.streams, "text/event-stream"), map[string]any{"type": "string"})
		if rt.result != nil {
			success["description"] = "Done; the data of the event result is a " + schemaName(reflect.TypeOf(rt.result))
			schemaOf(reflect.TypeOf(rt.result), schemas)
		}
	case rt.text != nil:
		success["content"] = content(rt.text.kind, map[string]any{"type": "string"})
	default:
		success["content"] = content("application/json", schemaOf(reflect.TypeOf(rt.result), schemas))
	}
	failure := map[string]any{"description": http.StatusText(http.StatusBadRequest) + " and the like",
		"content": content("application/json", schemaOf(reflect.TypeFor[Problem](), schemas))}
	op["responses"] = map[string]any{"200": success, "default": failure}
	return op
}

func content(kind string, schema any) map[string]any {
	return map[string]any{kind: map[string]any{"schema": schema}}
}

func (rt *route) describe(p parameter) map[string]any {
	schema := map[string]any{"type": "string"}
	if p.integer {
		schema = map[string]any{"type": "integer", "minimum": 0}
	}
	if p.values != nil {
		schema["enum"] = p.values
	}
	if p.repeated {
		schema = map[string]any{"type": "array", "items": schema}
	}
	d := map[string]any{"name": p.name, "in": "query", "description": p.about, "schema": schema}
	if rt.inPath(p.name) {
		d["in"], d["required"] = "path", true
	}
	return d
}

var (
	timeType = reflect.TypeFor[time.Time]()
	rawType  = reflect.TypeFor[json.RawMessage]()
	amount   = reflect.TypeFor[resource.Quantity]()
)

// prefixes of the components that are types of these packages, whose own names would not tell them apart.
var prefixes = map[string]string{"millwright/store/audit/plan": "Plan", "millwright/store/audit/whatif": "WhatIf", "millwright/store/audit/shadow": "Shadow"}

func schemaName(t reflect.Type) string { return prefixes[t.PkgPath()] + t.Name() }

// schemaOf describes a type as encoding/json writes it. Structs with a name become components.
func schemaOf(t reflect.Type, schemas map[string]any) map[string]any {
	switch {
	case t == timeType:
		return map[string]any{"type": "string", "format": "date-time"}
	case t == rawType:
		return map[string]any{}
	case t == amount:
		return map[string]any{"type": "string"}
	}
	switch t.Kind() {
	case reflect.Float64:
		return map[string]any{"type": "number"}
	case reflect.Pointer:
		return schemaOf(t.Elem(), schemas)
	case reflect.Bool:
		return map[string]any{"type": "boolean"}
	case reflect.String:
		return map[string]any{"type": "string"}
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64, reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64:
		return map[string]any{"type": "integer", "format": "int64"}
	case reflect.Slice:
		return map[string]any{"type": "array", "items": schemaOf(t.Elem(), schemas)}
	case reflect.Map:
		return map[string]any{"type": "object", "additionalProperties": schemaOf(t.Elem(), schemas)}
	case reflect.Struct:
		name := schemaName(t)
		if _, known := schemas[name]; !known {
			schemas[name] = nil // while it is being made, so that a type may contain itself
			properties := map[string]any{}
			required := fields(t, schemas, properties)
			schema := map[string]any{"type": "object", "properties": properties}
			if len(required) > 0 {
				schema["required"] = required
			}
			schemas[name] = schema
		}
		return map[string]any{"$ref": "#/components/schemas/" + name}
	}
	return map[string]any{}
}

// fields adds those of a struct to properties, and returns the names of those that are always there.
func fields(t reflect.Type, schemas, properties map[string]any) (required []string) {
	for i := range t.NumField() {
		f := t.Field(i)
		name, options, _ := strings.Cut(f.Tag.Get("json"), ",")
		switch {
		case !f.IsExported() || name == "-":
		case f.Anonymous && name == "":
			required = append(required, fields(f.Type, schemas, properties)...)
		default:
			if name == "" {
				name = f.Name
			}
			properties[name] = schemaOf(f.Type, schemas)
			if !strings.Contains(options, "omit") {
				required = append(required, name)
			}
		}
	}
	return required
}
