// Package renamed writes bundles, with pseudonyms if that is asked for. A file is written as a whole or not
// at all. Used by millctl bundle, whose tests try it.
package renamed

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"

	"github.com/spf13/cobra"

	"millwright/store/audit/pseudonyms"
	"millwright/store/audit/recording"
	"millwright/tools/millctl/sources"
)

// Flags ask for pseudonyms.
type Flags struct {
	pseudonymise bool
	// table is the file that names and pseudonyms are written to; "": none.
	table string
}

// Register the flags with the command.
func (f *Flags) Register(cmd *cobra.Command) {
	cmd.Flags().BoolVar(&f.pseudonymise, "pseudonymise", false, "replace names by pseudonyms")
	cmd.Flags().StringVar(&f.table, "pseudonyms-file", "", "file to write the table of names and pseudonyms to, for its owner alone; it must not exist")
}

// Check that they go together, and that the table has a place, before anything is asked for.
func (f *Flags) Check() error {
	if f.table != "" && !f.pseudonymise {
		return errors.New("--pseudonyms-file: needs --pseudonymise")
	}
	if _, err := os.Lstat(f.table); f.table != "" && !errors.Is(err, os.ErrNotExist) {
		return fmt.Errorf("--pseudonyms-file: %s is there already", f.table)
	}
	return nil
}

// Write writes the file of a bundle that plain writes with the names on record.
func (f *Flags) Write(ctx context.Context, output string, plain func(io.Writer) error) error {
	if !f.pseudonymise {
		return sources.WriteWhole(output, plain)
	}
	return sources.WriteWhole(output, func(w io.Writer) error {
		contents, err := contentsOf(output, plain)
		if err != nil {
			return err
		}
		renamed, table, err := pseudonyms.Rename(ctx, contents)
		if err != nil {
			return err
		}
		if err := renamed.Write(w); err != nil || f.table == "" {
			return err
		}
		return writeTable(f.table, table)
	})
}

// contentsOf reads the bundle with the names on record, which lies in a file of the owner's alone meanwhile.
func contentsOf(output string, plain func(io.Writer) error) (*recording.Contents, error) {
	f, err := os.CreateTemp(filepath.Dir(output), filepath.Base(output)+".*")
	if err != nil {
		return nil, err
	}
	defer func() { _ = os.Remove(f.Name()) }()
	if err := errors.Join(plain(f), f.Close()); err != nil {
		return nil, err
	}
	b, err := recording.OpenBundle(f.Name())
	if err != nil {
		return nil, err
	}
	defer func() { _ = b.Close() }() // it was only read
	return b.Contents()
}

// writeTable writes names and pseudonyms, by name.
func writeTable(file string, table pseudonyms.Table) error {
	f, err := os.OpenFile(file, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return fmt.Errorf("write table of pseudonyms: %w", err)
	}
	w := bufio.NewWriter(f)
	for _, name := range slices.Sorted(maps.Keys(table)) {
		fmt.Fprintf(w, "%q\t%q\n", name, table[name])
	}
	if err := errors.Join(w.Flush(), f.Close()); err != nil { // a part of it would be taken for the table
		return errors.Join(fmt.Errorf("write table of pseudonyms: %w", err), os.Remove(file))
	}
	return nil
}
