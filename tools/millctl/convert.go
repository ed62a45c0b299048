package main

import (
	"errors"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"millwright/tools/millctl/convert"
	"millwright/tools/millctl/sources"
)

// manifestBytesMax bounds one file.
const manifestBytesMax = 64 << 20

// inexpressible is the exit status with --strict when something could not be expressed.
const inexpressible = exitStatus(2)

func convertCommand() *cobra.Command {
	var o convert.Options
	var files []string
	var strict bool
	cmd := &cobra.Command{
		Use: "convert --to v1|v1beta1 -f FILE-OR-DIR…", Short: "Convert manifests between the versions of the API", Args: cobra.NoArgs,
		Long: `Convert reads manifests and writes them to standard output at the version asked for: from v1, v1beta1, v1alpha5 Provisioner,
v1alpha1 AWSNodeTemplate, and the early names Machine and compute.k8s.aws NodeTemplate. Order and comments stay. Documents of other
kinds pass as they are; --workloads renames labels, annotations and taints of earlier versions in them. It needs no cluster.

What could not be expressed is said on standard error: file, object, field, reason. docs/upgrade.md has examples.

Exit status: 0 if all was converted, 1 if the input or a flag is at fault (nothing is written then), and with --strict 2 if all
was converted and something could not be expressed.`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if o.To != "v1" && o.To != "v1beta1" {
				return fmt.Errorf("invalid --to %q: must be v1 or v1beta1", o.To)
			}
			read, err := manifests(files, cmd.InOrStdin())
			if err != nil {
				return err
			}
			out, notes, err := convert.Run(o, read)
			if err != nil {
				return err
			}
			for _, n := range notes {
				fmt.Fprintln(cmd.ErrOrStderr(), n)
			}
			if _, err := cmd.OutOrStdout().Write(out); err != nil {
				return err
			}
			if strict && len(notes) > 0 {
				return inexpressible
			}
			return nil
		},
	}
	f := cmd.Flags()
	f.StringVar(&o.To, "to", "", "version to convert to: v1 or v1beta1; required")
	f.StringArrayVarP(&files, "filename", "f", nil, "file or directory (*.yaml, *.yml, *.json, by name); - is standard input; may be repeated")
	f.BoolVar(&o.Workloads, "workloads", false, "rename labels, annotations and taints of earlier versions in documents of other kinds")
	f.BoolVar(&o.IgnoreDefaults, "ignore-defaults", false, "leave out the requirements that v1alpha5 added to each Provisioner on its own")
	f.BoolVar(&o.RoundTrip, "round-trip", false, "keep the annotations by which converting back gives the same objects again")
	f.BoolVar(&strict, "strict", false, "exit with status 2 if something could not be expressed")
	return cmd
}

// manifests reads files, the manifests of directories in order of names, and standard input.
func manifests(paths []string, stdin io.Reader) (out []convert.Source, err error) {
	if len(paths) == 0 {
		return nil, fmt.Errorf("convert: no input: give -f FILE-OR-DIR")
	}
	list, err := sources.List(paths, "", stdin)
	if err != nil {
		return nil, err
	}
	for _, from := range list {
		in, err := from.Open()
		if err != nil {
			return nil, err
		}
		data, err := io.ReadAll(io.LimitReader(in, manifestBytesMax+1))
		switch err = errors.Join(err, in.Close()); {
		case err != nil:
			return nil, fmt.Errorf("read %s: %w", from.Name, err)
		case len(data) > manifestBytesMax:
			return nil, fmt.Errorf("read %s: larger than %d bytes", from.Name, manifestBytesMax)
		}
		out = append(out, convert.Source{Name: from.Name, Data: data})
	}
	return out, nil
}
