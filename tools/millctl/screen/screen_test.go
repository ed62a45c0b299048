package screen

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"testing"
	"time"
)

func TestColoursAreForTerminalsAlone(t *testing.T) {
	file, err := os.CreateTemp(t.TempDir(), "")
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	seen := &Painted{Writer: io.Discard, Colours: true}
	if got := Paint(seen, Red, "no"); got != "\x1b[31mno\x1b[0m" {
		t.Errorf("on a terminal: %q", got)
	}
	for about, out := range map[string]io.Writer{"a file": file, "a buffer": &bytes.Buffer{}, "a buffer of no terminal": &Painted{Writer: io.Discard}} {
		if got := Paint(out, Red, "no"); got != "no" {
			t.Errorf("in %s: %q", about, got)
		}
	}
}

// An answer that is watched is printed when it is another one, outlives failures, and ends with the context.
func TestWatchingPrintsWhatChanges(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	answers := []string{"a", "a", "fails", "b", "a"}
	asked := 0
	show := func(out io.Writer) error {
		if asked == len(answers) {
			cancel()
			return ctx.Err()
		}
		asked++
		if answers[asked-1] == "fails" {
			return io.ErrUnexpectedEOF
		}
		_, err := fmt.Fprintln(out, answers[asked-1])
		return err
	}
	var out bytes.Buffer
	if err := Watch(ctx, &out, "---", time.Millisecond, show); err != nil || out.String() != "a\n---\nb\n---\na\n" {
		t.Errorf("%v: %q", err, out.String())
	}
	if err := Watch(t.Context(), &out, "", time.Millisecond, func(io.Writer) error { return io.EOF }); err != io.EOF {
		t.Errorf("a first answer that fails: %v", err)
	}
}
