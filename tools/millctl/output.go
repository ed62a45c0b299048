package main

import (
	"context"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"millwright/tools/millctl/screen"
)

// Formats of what reading commands print. text is another name for table, from earlier versions.
const (
	formatTable = "table"
	formatText  = "text"
	formatWide  = "wide"
	formatJSON  = "json"
	formatYAML  = "yaml"
	formatName  = "name"
)

// output is the flag -o of a command that reads, and --watch of one that can go on.
type output struct {
	format string
	// known are the formats of the command.
	known []string
	watch bool
}

// register adds the flag; more are formats besides table, json and yaml.
func (o *output) register(f *pflag.FlagSet, more ...string) {
	o.known = append([]string{formatTable, formatJSON, formatYAML}, more...)
	f.StringVarP(&o.format, "output", "o", formatTable, strings.Join(o.known[:len(o.known)-1], ", ")+" or "+o.known[len(o.known)-1])
}

// registerAll adds all formats.
func (o *output) registerAll(f *pflag.FlagSet) { o.register(f, formatWide, formatName) }

// registerWatch adds --watch.
func (o *output) registerWatch(f *pflag.FlagSet, t *target) {
	t.watches = append(t.watches, &o.watch)
	f.BoolVarP(&o.watch, "watch", "w", false, "ask again every few seconds, and print the answer whenever it is another one, until interrupted")
}

// check refuses formats that the command does not have.
func (o *output) check() error {
	if o.format == formatText {
		o.format = formatTable
	}
	if !slices.Contains(o.known, o.format) {
		return fmt.Errorf("invalid -o %q: must be one of %s", o.format, strings.Join(o.known, ", "))
	}
	return nil
}

// formatsOf are the formats that a command has; none if it does not print what is read.
func formatsOf(c *cobra.Command) (list []string) {
	f := c.Flags().Lookup("output")
	if f == nil {
		return nil
	}
	words := strings.FieldsFunc(f.Usage, func(r rune) bool { return strings.ContainsRune(" ,;:()", r) })
	for _, format := range []string{formatTable, formatWide, formatJSON, formatYAML, formatName} {
		if slices.Contains(words, format) {
			list = append(list, format)
		}
	}
	return list
}

func (o *output) wide() bool { return o.format == formatWide }

// write prints a value as JSON or YAML, or has table print it for people.
func (o *output) write(out io.Writer, v any, table func(io.Writer) error) error {
	switch o.format {
	case formatJSON:
		return screen.WriteJSON(out, v)
	case formatYAML:
		return screen.WriteYAML(out, v)
	}
	return table(out)
}

// list is write for a list, of which -o name prints kind and names.
func (o *output) list(out io.Writer, v any, kind string, names []string, table func(io.Writer) error) error {
	if o.format == formatName {
		return screen.WriteNames(out, kind, names)
	}
	return o.write(out, v, table)
}

// repeat prints what show prints and, with --watch, what it prints later if that is something else.
func (o *output) repeat(ctx context.Context, out io.Writer, show func(io.Writer) error) error {
	if !o.watch {
		return show(out)
	}
	separator := ""
	if o.format == formatYAML {
		separator = "---"
	}
	return screen.Watch(ctx, out, separator, screen.WatchEvery, show)
}
