// Command composetest brings the compose stack up under a name and on ports of its own, runs the demo's
// workload on it, crashes one container of each kind, and checks that everything converges: pods run, each
// NodeClaim launched once, nothing is left after scaling to zero, the record verifies and replays. With
// --zones the stack is that of three zones, of which it takes one away at a time. It takes down what it
// brought up, even when it fails or is interrupted. The images must exist (`make images`).
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"millwright/tools/outcome"
)

// downTimeout bounds taking the stack down; that has time of its own.
const downTimeout = 3 * time.Minute

// downAttempts: an engine that has just connected and disconnected many containers at once sometimes keeps
// the endpoint of one that is gone, and does not remove the network then.
const downAttempts = 3

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	if err := command().ExecuteContext(ctx); err != nil {
		fmt.Fprintln(os.Stderr, "composetest:", err)
		os.Exit(1)
	}
}

func command() *cobra.Command {
	var root string
	var timeout time.Duration
	var keep, zones bool
	cmd := &cobra.Command{
		Use: "composetest", Short: "Test the compose stack", Args: cobra.NoArgs, SilenceUsage: true, SilenceErrors: true,
		RunE: func(cmd *cobra.Command, _ []string) error {
			ctx, cancel := context.WithTimeout(cmd.Context(), timeout)
			defer cancel()
			return run(ctx, root, keep, zones)
		},
	}
	cmd.Flags().StringVar(&root, "root", ".", "directory of docker-compose.yaml")
	cmd.Flags().DurationVar(&timeout, "timeout", 7*time.Minute, "give up after this long")
	cmd.Flags().BoolVar(&zones, "zones", false, "lose zones and leaders of a stack with three of each server and two of each service, instead of single containers")
	cmd.Flags().BoolVar(&keep, "keep", false, "leave the stack running, for a look at it")
	return cmd
}

func run(ctx context.Context, root string, keep, zones bool) (err error) {
	p, err := newProject(ctx, root, zones)
	if err != nil {
		return err
	}
	t := &test{project: p, out: outcome.NewProgress(os.Stdout), kinds: single}
	if zones {
		t.kinds = zoned
	}
	defer func() {
		if err != nil {
			t.showLogs()
		}
		if keep {
			t.out.Say("left running: project %s, API server on port %d, EC2 on port %d", p.name, p.kubePort, p.ec2Port)
			return
		}
		err = errors.Join(err, t.down())
		if err == nil {
			t.out.Say("passed")
		}
	}()
	if zones {
		return t.each(ctx, t.up, t.workload, t.zoneCutOff, t.zoneKilled, t.leadersCutOff, t.toZero, t.record)
	}
	return t.each(ctx, t.up, t.workload, t.crashes, t.converged, t.scraped, t.toZero, t.record)
}

// showLogs prints the ends of all containers' logs.
func (t *test) showLogs() {
	ctx, cancel := context.WithTimeout(context.Background(), downTimeout)
	defer cancel()
	t.out.Say("failed; the ends of the logs:")
	logs, err := t.project.compose(ctx, "logs", "--no-color", "--tail=30")
	if err != nil {
		t.out.Say("%v", err)
	}
	fmt.Fprintln(os.Stdout, logs)
}

// down takes the stack down and checks that nothing of it stays.
func (t *test) down() error {
	ctx, cancel := context.WithTimeout(context.Background(), downTimeout)
	defer cancel()
	t.out.Say("take it down")
	err := t.project.takeDown(ctx)
	for attempt := 1; err != nil && attempt < downAttempts; attempt++ {
		t.out.Say("not all of it went, trying again: %v", err)
		err = errors.Join(t.project.releaseNetworks(ctx), t.project.takeDown(ctx))
	}
	if err != nil {
		return err
	}
	return t.project.gone(ctx)
}
