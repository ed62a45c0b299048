// Package screen prints for people and programs: JSON, YAML, names, colours on terminals alone, and
// answers that are watched. It knows nothing of what is printed.
package screen

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/mattn/go-isatty"
	"github.com/spf13/pflag"
	"sigs.k8s.io/yaml"
)

const (
	// WatchEvery is how often a question is asked again, watchFailuresMax how many answers in a row may fail.
	WatchEvery       = 3 * time.Second
	watchFailuresMax = 20
)

// Watch prints what show prints, and what it prints later if that is something else, until ctx ends. After
// the first answer a failure is reported, and the question asked again.
func Watch(ctx context.Context, out io.Writer, separator string, every time.Duration, show func(io.Writer) error) error {
	var last []byte
	for failures := 0; ; {
		var b bytes.Buffer
		err := show(&Painted{Writer: &b, Colours: Colours(out)})
		switch {
		case ctx.Err() != nil:
			return nil
		case err != nil && (last == nil || failures == watchFailuresMax):
			return err
		case err != nil:
			failures++
			fmt.Fprintf(os.Stderr, "millctl: %v\n", err)
		case !bytes.Equal(last, b.Bytes()):
			if last != nil {
				fmt.Fprintln(out, separator)
			}
			if _, err := out.Write(b.Bytes()); err != nil {
				return fmt.Errorf("print: %w", err)
			}
			fallthrough
		default:
			last, failures = append([]byte{}, b.Bytes()...), 0
		}
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(every):
		}
	}
}

// WriteNames prints names as kubectl does: KIND/NAME, one to a line.
func WriteNames(out io.Writer, kind string, names []string) error {
	for _, n := range names {
		if _, err := fmt.Fprintln(out, kind+"/"+n); err != nil {
			return fmt.Errorf("write names: %w", err)
		}
	}
	return nil
}

// WriteJSON writes one value for programs.
func WriteJSON(out io.Writer, v any) error {
	e := json.NewEncoder(out)
	e.SetIndent("", "  ")
	if err := e.Encode(v); err != nil {
		return fmt.Errorf("write JSON: %w", err)
	}
	return nil
}

// WriteYAML writes one document.
func WriteYAML(out io.Writer, v any) error {
	b, err := yaml.Marshal(v)
	if err != nil {
		return fmt.Errorf("write YAML: %w", err)
	}
	_, err = out.Write(b)
	return err
}

// What is printed can be red, green, yellow or bold.
const (
	Red    = "31"
	Green  = "32"
	Yellow = "33"
	Bold   = "1"
)

// Painted is a writer that knows whether those who read it see colours.
type Painted struct {
	io.Writer
	Colours bool
}

// Colours reports whether a writer is a terminal on which colours are wanted (https://no-color.org).
func Colours(out io.Writer) bool {
	switch out := out.(type) {
	case *Painted:
		return out.Colours
	case *os.File:
		return os.Getenv("NO_COLOR") == "" && os.Getenv("TERM") != "dumb" && isatty.IsTerminal(out.Fd())
	}
	return false
}

// Paint is a text in a colour where colours are seen.
func Paint(out io.Writer, colour, text string) string {
	if !Colours(out) || text == "" {
		return text
	}
	return "\x1b[" + colour + "m" + text + "\x1b[0m"
}

// Progress shows on a terminal how far something has come, in records or the like, in a line that is
// overwritten; elsewhere nothing.
func Progress(out io.Writer, what string) func(done, last uint64) {
	f, ok := out.(*os.File)
	if !ok || !isatty.IsTerminal(f.Fd()) {
		return func(uint64, uint64) {}
	}
	return func(done, last uint64) {
		if last > 0 {
			fmt.Fprintf(out, "%s %d of %d\r", what, done, last)
		}
	}
}

// SpanVar defines a flag for a span before now, which is not negative.
func SpanVar(f *pflag.FlagSet, p *time.Duration, name string, value time.Duration, usage string) {
	*p = value
	f.Var((*span)(p), name, usage)
}

type span time.Duration

func (s *span) String() string { return time.Duration(*s).String() }
func (s *span) Type() string   { return "duration" }

func (s *span) Set(text string) error {
	d, err := time.ParseDuration(text)
	if err == nil && d < 0 {
		err = errors.New("must not be negative: it is a span before now, such as 1h")
	}
	*s = span(d)
	return err
}

// endAfter is how long what was interrupted may take to end by itself.
const endAfter = 5 * time.Second

// Interrupted is called when the process was told to end. stop gives signals their own effect again, so that
// the next one ends it at once; what goes on all the same, as planning does, is ended after a while.
func Interrupted(stop func()) {
	stop()
	time.Sleep(endAfter)
	fmt.Fprintln(os.Stderr, "millctl: interrupted")
	os.Exit(1)
}
