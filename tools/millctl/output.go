package main

import (
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/spf13/pflag"
	"sigs.k8s.io/yaml"
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

// output is the flag -o of a command that reads.
type output struct {
	format string
	// known are the formats of the command besides table, json and yaml.
	known []string
}

// register adds the flag; more are formats besides table, json and yaml.
func (o *output) register(f *pflag.FlagSet, more ...string) {
	o.known = append([]string{formatTable, formatJSON, formatYAML}, more...)
	f.StringVarP(&o.format, "output", "o", formatTable, strings.Join(o.known[:len(o.known)-1], ", ")+" or "+o.known[len(o.known)-1])
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

// write prints a value as JSON or YAML, or has table print it for people.
func (o *output) write(out io.Writer, v any, table func(io.Writer) error) error {
	switch o.format {
	case formatJSON:
		return writeJSON(out, v)
	case formatYAML:
		b, err := yaml.Marshal(v)
		if err != nil {
			return fmt.Errorf("write YAML: %w", err)
		}
		_, err = out.Write(b)
		return err
	}
	return table(out)
}

// writeNames prints names as kubectl does: KIND/NAME, one to a line.
func writeNames(out io.Writer, kind string, names []string) error {
	for _, n := range names {
		if _, err := fmt.Fprintln(out, kind+"/"+n); err != nil {
			return fmt.Errorf("write names: %w", err)
		}
	}
	return nil
}

// writeJSON writes one value for programs.
func writeJSON(out io.Writer, v any) error {
	e := json.NewEncoder(out)
	e.SetIndent("", "  ")
	if err := e.Encode(v); err != nil {
		return fmt.Errorf("write JSON: %w", err)
	}
	return nil
}
