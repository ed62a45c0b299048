package plan

import (
	"fmt"
	"strings"
)

// InputError is a fault of the input.
type InputError struct {
	File string
	// Document counts the file's documents that are not empty, from 1; 0 if the fault is of the whole file.
	Document int
	// Object is "Kind namespace/name", as far as it could be read.
	Object string
	// Field is the path of the value at fault; "" if none can be named.
	Field string
	Err   error
}

func (e *InputError) Error() string {
	var b strings.Builder
	b.WriteString(e.File)
	if e.Document > 0 {
		fmt.Fprintf(&b, ": document %d", e.Document)
	}
	if e.Object != "" {
		b.WriteString(" (" + e.Object + ")")
	}
	if e.Field != "" {
		b.WriteString(": " + e.Field)
	}
	b.WriteString(": " + e.Err.Error())
	return b.String()
}

func (e *InputError) Unwrap() error { return e.Err }
