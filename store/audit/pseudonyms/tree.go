package pseudonyms

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
)

// A value is JSON whose objects keep the order of their fields, so that what was encoded from a struct stays
// byte for byte as its encoder writes it: nil, bool, json.Number, string, []value or *object.
type value any

// object of JSON.
type object struct{ fields []field }

type field struct {
	name  string
	value value
}

// get returns the text of a field; "" if it is none.
func (o *object) text(name string) string {
	for _, f := range o.fields {
		if f.name == name {
			s, _ := f.value.(string)
			return s
		}
	}
	return ""
}

func (o *object) has(name string) bool {
	for _, f := range o.fields {
		if f.name == name {
			return true
		}
	}
	return false
}

// parse reads one value; nothing may follow it.
func parse(data []byte) (value, error) {
	d := json.NewDecoder(bytes.NewReader(data))
	d.UseNumber()
	v, err := parseNext(d)
	if err != nil {
		return nil, err
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return nil, errors.New("something follows the value")
	}
	return v, nil
}

func parseNext(d *json.Decoder) (value, error) {
	t, err := d.Token()
	if err != nil {
		return nil, err
	}
	switch t {
	case json.Delim('{'):
		return parseObject(d)
	case json.Delim('['):
		list := []value{}
		for d.More() {
			v, err := parseNext(d)
			if err != nil {
				return nil, err
			}
			list = append(list, v)
		}
		_, err := d.Token()
		return list, err
	}
	return t, nil
}

func parseObject(d *json.Decoder) (value, error) {
	o := &object{}
	for d.More() {
		t, err := d.Token()
		if err != nil {
			return nil, err
		}
		name, ok := t.(string)
		if !ok {
			return nil, fmt.Errorf("field is named %v", t)
		}
		v, err := parseNext(d)
		if err != nil {
			return nil, err
		}
		o.fields = append(o.fields, field{name, v})
	}
	_, err := d.Token()
	return o, err
}

// render writes a value as encoding/json does.
func render(v value) ([]byte, error) {
	var b bytes.Buffer
	err := renderTo(&b, v)
	return b.Bytes(), err
}

func renderTo(b *bytes.Buffer, v value) error {
	switch x := v.(type) {
	case *object:
		b.WriteByte('{')
		for i, f := range x.fields {
			if i > 0 {
				b.WriteByte(',')
			}
			if err := renderTo(b, f.name); err != nil {
				return err
			}
			b.WriteByte(':')
			if err := renderTo(b, f.value); err != nil {
				return err
			}
		}
		b.WriteByte('}')
	case []value:
		b.WriteByte('[')
		for i, e := range x {
			if i > 0 {
				b.WriteByte(',')
			}
			if err := renderTo(b, e); err != nil {
				return err
			}
		}
		b.WriteByte(']')
	default:
		text, err := json.Marshal(x)
		b.Write(text)
		return err
	}
	return nil
}
