package main

import (
	"context"
	"fmt"
	"io"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"millwright/tools/millctl/migrate"
)

const (
	migrateTimeout = 2 * time.Minute
	// unclean is the exit status when something must be cleaned.
	unclean = exitStatus(2)
)

func migrateCommand(t *target) *cobra.Command {
	cmd := &cobra.Command{Use: "migrate", Short: "Prepare a cluster for the end of v1beta1", Args: cobra.NoArgs}
	cmd.AddCommand(migrateCheckCommand(t))
	return cmd
}

func migrateCheckCommand(t *target) *cobra.Command {
	var o output
	cmd := &cobra.Command{
		Use: "check", Short: "List what in a cluster must be cleaned before v1beta1 is dropped", Args: cobra.NoArgs,
		Long: `Check reads the CRDs and all NodePools, NodeClaims and EC2NodeClasses of a cluster and lists what must be cleaned before v1beta1 is
dropped: stored versions, annotations that conversion left, NodeClasses shared by NodePools with different kubelet blocks, references
without group or kind. It changes nothing. docs/upgrade.md says how to clean each.

Exit status: 0 if nothing must be cleaned (what only may be is listed all the same), 2 if something must, 1 on an error.`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := o.check(); err != nil {
				return err
			}
			ctx, cancel := context.WithTimeout(cmd.Context(), migrateTimeout)
			defer cancel()
			cfg, err := t.console.Loader().ClientConfig()
			if err != nil {
				return fmt.Errorf("read kubeconfig: %w", err)
			}
			cluster, err := migrate.Read(ctx, cfg)
			if err != nil {
				return err
			}
			findings := migrate.Inspect(cluster)
			if err := o.write(cmd.OutOrStdout(), append([]migrate.Finding{}, findings...), func(out io.Writer) error { return printFindings(out, findings) }); err != nil {
				return err
			}
			if slices.ContainsFunc(findings, func(f migrate.Finding) bool { return f.Blocking }) {
				return unclean
			}
			return nil
		},
	}
	o.register(cmd.Flags())
	return cmd
}

func printFindings(out io.Writer, findings []migrate.Finding) error {
	for _, f := range findings {
		fmt.Fprintln(out, f)
	}
	if len(findings) == 0 {
		fmt.Fprintln(out, "nothing to clean: v1beta1 can be dropped")
	}
	return nil
}
