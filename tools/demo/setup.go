package main

import (
	"context"
	"fmt"
	"io/fs"
	"time"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/api/meta"

	"millwright/deploy/crds"
	"millwright/tools/stack"
)

const setupTimeout = 2 * time.Minute

// applyCommand prepares a cluster that something else runs, such as the compose stack's.
func applyCommand() *cobra.Command {
	var kubeconfig string
	cmd := &cobra.Command{
		Use: "apply", Short: "Install the CRDs in a cluster, and those of the demo's manifests that are missing", Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return setup(cmd.Context(), kubeconfig) },
	}
	cmd.Flags().StringVar(&kubeconfig, "kubeconfig", "", "file that names the cluster (required)")
	_ = cmd.MarkFlagRequired("kubeconfig")
	return cmd
}

func setup(ctx context.Context, kubeconfig string) error {
	ctx, cancel := context.WithTimeout(ctx, setupTimeout)
	defer cancel()
	cfg, err := stack.ClientConfig(kubeconfig)
	if err != nil {
		return fmt.Errorf("read kubeconfig: %w", err)
	}
	a, err := newApplier(cfg)
	if err != nil {
		return err
	}
	files, err := fs.Glob(crds.Files, "*.yaml")
	if err != nil {
		return err
	}
	for _, f := range files {
		if err := a.applyFile(ctx, crds.Files, f); err != nil {
			return err
		}
	}
	// A second run must not scale what is running to zero.
	a.Keep = true
	for _, m := range []string{"nodepool.yaml", "workload.yaml"} {
		if err := a.applyServed(ctx, m); err != nil {
			return err
		}
	}
	return nil
}

// applyServed applies a manifest whose kinds the API server may not serve yet, since their CRDs are new.
func (a *applier) applyServed(ctx context.Context, name string) error {
	for {
		err := a.apply(ctx, name)
		if !meta.IsNoMatchError(err) {
			return err
		}
		a.Mapper.Reset()
		select {
		case <-ctx.Done():
			return fmt.Errorf("wait for the CRDs: %w", err)
		case <-time.After(200 * time.Millisecond):
		}
	}
}
