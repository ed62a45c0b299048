package conversion

import (
	"fmt"
	"io/fs"
	"maps"
	"path"
	"regexp"
	"slices"
	"strconv"

	"sigs.k8s.io/yaml"
)

// Shapes check the types of an object's fields by the schemas of the CRDs. Bounds, patterns and rules are not
// checked: an object that was stored before one of them existed must stay readable.
type Shapes struct {
	schemas map[string]Object
}

// NewShapes reads every CRD of a directory of manifests.
func NewShapes(files fs.FS, dir string) (*Shapes, error) {
	names, err := fs.Glob(files, path.Join(dir, "*.yaml"))
	if err != nil {
		return nil, fmt.Errorf("find CRDs: %w", err)
	}
	s := &Shapes{schemas: map[string]Object{}}
	for _, name := range names {
		data, err := fs.ReadFile(files, name)
		if err != nil {
			return nil, fmt.Errorf("read CRD: %w", err)
		}
		crd := Object{}
		if err := yaml.Unmarshal(data, &crd); err != nil {
			return nil, fmt.Errorf("parse CRD %s: %w", name, err)
		}
		s.addCRD(node{fields: crd})
	}
	return s, nil
}

func (s *Shapes) addCRD(crd node) {
	spec, _ := crd.required("spec")
	group, _ := spec.text("group")
	names, _ := spec.required("names")
	kind, _ := names.text("kind")
	versions, _ := spec.list("versions")
	for _, v := range versions {
		name, _ := v.text("name")
		schema, _ := v.required("schema")
		if root, err := schema.required("openAPIV3Schema"); err == nil {
			s.schemas[group+"/"+name+" "+kind] = root.fields
		}
	}
}

// Check returns the first field, in order of names, whose type is not the schema's, as a FieldError. Objects
// and fields that no schema knows, and null, pass.
func (s *Shapes) Check(o Object) error { return s.check(o, false) }

// CheckValues is Check for what someone has written and nobody has stored: texts must match the patterns of
// the schema too.
func (s *Shapes) CheckValues(o Object) error { return s.check(o, true) }

func (s *Shapes) check(o Object, values bool) error {
	apiVersion, _ := o["apiVersion"].(string)
	kind, _ := o["kind"].(string)
	schema, ok := s.schemas[apiVersion+" "+kind]
	if !ok {
		return nil
	}
	if err := (checker{values: values}).check(schema, "", o); err != nil {
		return fmt.Errorf("%s: %w", Name(o), err)
	}
	return nil
}

// checker compares a value with a schema; with values, texts with patterns as well.
type checker struct{ values bool }

func (c checker) check(schema Object, at string, v any) error {
	if v == nil {
		return nil
	}
	if err := c.pattern(schema, at, v); err != nil {
		return err
	}
	if anyOf, _ := schema["x-kubernetes-int-or-string"].(bool); anyOf {
		return fits(at, v, "a number or a string", kindOf(v) == "a number" || kindOf(v) == "a string")
	}
	switch schema["type"] {
	case "object":
		return c.object(schema, at, v)
	case "array":
		return c.list(schema, at, v)
	case "string":
		return fits(at, v, "a string", kindOf(v) == "a string")
	case "boolean":
		return fits(at, v, "a boolean", kindOf(v) == "a boolean")
	case "integer":
		_, whole := v.(int64)
		return fits(at, v, "an integer", whole)
	case "number":
		return fits(at, v, "a number", kindOf(v) == "a number")
	}
	return nil
}

// pattern compares a text with the schema's pattern. One that Go cannot read says nothing.
func (c checker) pattern(schema Object, at string, v any) error {
	text, isText := v.(string)
	pattern, has := schema["pattern"].(string)
	if !c.values || !isText || !has {
		return nil
	}
	if re, err := regexp.Compile(pattern); err == nil && !re.MatchString(text) {
		return &FieldError{at, fmt.Sprintf("%q does not match %s", text, pattern)}
	}
	return nil
}

func fits(at string, v any, want string, ok bool) error {
	if ok {
		return nil
	}
	return &FieldError{at, fmt.Sprintf("must be %s, is %s", want, kindOf(v))}
}

func (c checker) object(schema Object, at string, v any) error {
	fields, ok := v.(Object)
	if !ok {
		return fits(at, v, "an object", false)
	}
	properties, _ := schema["properties"].(Object)
	additional, _ := schema["additionalProperties"].(Object)
	for _, key := range slices.Sorted(maps.Keys(fields)) {
		of, known := properties[key].(Object)
		if !known {
			of = additional
		}
		if err := c.check(of, join(at, key, known), fields[key]); err != nil {
			return err
		}
	}
	return nil
}

// join writes keys of maps in brackets, since they may have dots.
func join(at, key string, known bool) string {
	switch {
	case at == "":
		return key
	case known:
		return at + "." + key
	}
	return at + "[" + key + "]"
}

func (c checker) list(schema Object, at string, v any) error {
	items, ok := v.([]any)
	if !ok {
		return fits(at, v, "a list", false)
	}
	of, _ := schema["items"].(Object)
	for i, item := range items {
		if err := c.check(of, at+"["+strconv.Itoa(i)+"]", item); err != nil {
			return err
		}
	}
	return nil
}
