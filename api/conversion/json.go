package conversion

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
)

// Unmarshal decodes JSON with integers as int64, so that none loses a digit.
func Unmarshal(data []byte, into *any) error {
	dec := json.NewDecoder(bytes.NewReader(data))
	dec.UseNumber()
	if err := dec.Decode(into); err != nil {
		return err
	}
	if _, err := dec.Token(); !errors.Is(err, io.EOF) {
		return errors.New("data after the end of the JSON value")
	}
	*into = numbers(*into)
	return nil
}

// numbers turns whole numbers into int64, and leaves others as they are written.
func numbers(v any) any {
	switch v := v.(type) {
	case json.Number:
		if i, err := v.Int64(); err == nil {
			return i
		}
		return v
	case Object:
		for k := range v {
			v[k] = numbers(v[k])
		}
	case []any:
		for i := range v {
			v[i] = numbers(v[i])
		}
	}
	return v
}
