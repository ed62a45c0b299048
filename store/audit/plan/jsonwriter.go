package plan

import (
	"bufio"
	"bytes"
	"encoding/json"
)

// jsonWriter writes JSON piece by piece. After an error it writes nothing more.
type jsonWriter struct {
	out *bufio.Writer
	// line holds one value at a time.
	line    bytes.Buffer
	element *json.Encoder
	err     error
}

func newJSONWriter(out *bufio.Writer) *jsonWriter {
	w := &jsonWriter{out: out}
	w.element = json.NewEncoder(&w.line)
	w.element.SetEscapeHTML(false)
	return w
}

func (w *jsonWriter) text(s string) {
	if w.err == nil {
		_, w.err = w.out.WriteString(s)
	}
}

func (w *jsonWriter) value(v any) {
	w.line.Reset()
	if w.err == nil {
		w.err = w.element.Encode(v)
	}
	if w.err == nil {
		_, w.err = w.out.Write(bytes.TrimRight(w.line.Bytes(), "\n"))
	}
}

// writeList writes a member that is a list, and the comma after it.
func writeList[T any](w *jsonWriter, name string, list []T) {
	w.text(`"` + name + `": [`)
	for i := range list {
		if i > 0 {
			w.text(",")
		}
		w.text("\n  ")
		w.value(&list[i])
	}
	if len(list) > 0 {
		w.text("\n")
	}
	w.text("],\n")
}
