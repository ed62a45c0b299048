// Command demo runs Millwright on this machine: the real Kubernetes control plane, simulated EC2 and nodes.
//
//	demo run   shows a whole life: pods get nodes, a pod that never fits, consolidation, scale to zero, why, replay
//	demo up    leaves the stack running, with a kubeconfig to play with
//	demo down  ends what `demo up` started
package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"github.com/spf13/cobra"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	if err := command().ExecuteContext(ctx); err != nil {
		fmt.Fprintln(os.Stderr, "demo:", err)
		os.Exit(1)
	}
}

func command() *cobra.Command {
	var dir, bin string
	root := &cobra.Command{Use: "demo", Short: "Run Millwright on this machine", SilenceUsage: true, SilenceErrors: true}
	root.PersistentFlags().StringVar(&dir, "dir", ".local/demo", "directory for data and logs")
	root.PersistentFlags().StringVar(&bin, "bin", "bin", "directory of the binaries")
	root.AddCommand(
		&cobra.Command{
			Use: "run", Short: "Show the life of nodes from start to end, then exit", Args: cobra.NoArgs,
			RunE: func(cmd *cobra.Command, _ []string) error { return run(cmd.Context(), dir, bin) },
		},
		&cobra.Command{
			Use: "up", Short: "Start the stack and leave it running", Args: cobra.NoArgs,
			RunE: func(cmd *cobra.Command, _ []string) error { return up(cmd.Context(), dir, bin) },
		},
		&cobra.Command{
			Use: "down", Short: "End what `demo up` started", Args: cobra.NoArgs,
			RunE: func(*cobra.Command, []string) error { return down(dir) },
		},
		applyCommand(),
		&cobra.Command{
			Use: "serve", Hidden: true, Args: cobra.NoArgs,
			RunE: func(cmd *cobra.Command, _ []string) error { return serve(cmd.Context(), dir, bin) },
		},
	)
	return root
}
