package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"
)

// bench is one run.
type bench struct {
	root, bin, dir string
	nodes, pods    int
	// churn is how long pods and nodes come and go.
	churn time.Duration
	// after is how long moves are counted in a cluster that has come to rest.
	after time.Duration
	// week is how much is played of each synthetic week.
	week time.Duration
	// day is how much is recorded of the day of a large cluster, dayTimes its size in those of a week's, and
	// dayRuns how often it is replayed with a change.
	day               time.Duration
	dayTimes, dayRuns int
}

// part measures some figures within a time limit; the limit of churn is added to the time --churn sets.
type part struct {
	name, about string
	// tests are the packages whose tests it runs, separated by spaces; "" for none.
	tests string
	limit time.Duration
	run   func(context.Context, *bench) ([]figure, error)
}

var parts = []part{
	{"append", "appends to the embedded, fsynced log", appendPackage, 100 * time.Second, measureAppends},
	{"bus", "observations published and folded", busPackage, 50 * time.Second, measureBus},
	{"world", "memory and restore of the World", worldPackage, 50 * time.Second, measureWorld},
	{"plan", "planning rounds", planPackage, 100 * time.Second, measurePlans},
	{"candidates", "simulations of disruption, node by node", planPackage, 100 * time.Second, measureCandidates},
	{"search", "searches for nodes that can go, and a roll-out of all", disruptPackage, 10 * time.Minute, measureSearch},
	{"scale", "each service in a settled cluster of 5,000 nodes and 150,000 pods", scalePackage + " " + lifecyclePackage + " " + watchedPackage, 10 * time.Minute, measureScale},
	{"offline", "millctl plan --offline on files", "", 150 * time.Second, measureOffline},
	{"weeks", "five synthetic weeks under Millwright and under Karpenter's rules", "", time.Hour, measureWeeks},
	{"replay", "a day of a cluster of 1,000 nodes, planned again as it was and with another option", "", 90 * time.Minute, measureDay},
	{"startup", "start of a provisioner at 1,000 nodes and 20,000 pods", "", 70 * time.Second, measureStartup},
	{"recovery", "a leader killed, with a standby", "", 90 * time.Second, measureRecovery},
	{"latency", "pod to CreateFleet in the local stack, and memory", "", 230 * time.Second, measureLatency},
	{"taint", "an emptied node to its taint in the local stack", "", 5 * time.Minute, measureTaint},
	{"shrink", "the local stack after five Deployments of 1,000 pods are scaled down to 30 %", "", 20 * time.Minute, measureShrink},
	{"load", "pod to NodeClaim while 200 readers and 50 tails are at the console, and its memory", "", 20 * time.Minute, measureLoad},
	{"churn", "memory while nodes come and go in the local stack", "", 3 * time.Minute, measureChurn},
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := command().ExecuteContext(ctx); err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

func command() *cobra.Command {
	b := &bench{}
	var only []string
	cmd := &cobra.Command{
		Use: "bench", Short: "Print Millwright's figures, each with its aim", Args: cobra.NoArgs,
		SilenceUsage: true, SilenceErrors: true,
		Long: "Bench measures and prints one table. It needs the sources, and in bin/ what `make build` makes.\n\nParts:\n" + listParts(),
		RunE: func(cmd *cobra.Command, _ []string) error { return b.run(cmd.Context(), only) },
	}
	cmd.AddCommand(readersCommand())
	f := cmd.Flags()
	f.StringSliceVar(&only, "only", nil, "parts to measure (default: all)")
	f.StringVar(&b.bin, "bin", "", "directory of the binaries (default: bin of the sources)")
	f.StringVar(&b.dir, "dir", "", "keep data and logs in this directory (default: a temporary one)")
	f.IntVar(&b.nodes, "nodes", 100, "nodes that exist before latencies are measured")
	f.IntVar(&b.pods, "pods", 40, "pods whose latency is measured, one after the other")
	f.DurationVar(&b.churn, "churn", 2*time.Minute, "how long pods and nodes come and go in the part churn")
	f.DurationVar(&b.after, "after", 15*time.Minute, "how long moves are counted in the part shrink once the cluster is at rest")
	f.DurationVar(&b.week, "week", 7*24*time.Hour, "how much is played of each synthetic week in the part weeks")
	f.DurationVar(&b.day, "day", 24*time.Hour, "how much is recorded and replayed in the part replay")
	f.IntVar(&b.dayTimes, "day-size", dayTimes, "size of the cluster in the part replay; 80 are about 1,000 nodes")
	f.IntVar(&b.dayRuns, "day-runs", 3, "how often that is replayed with a change, with the same answer each time")
	return cmd
}

func listParts() string {
	var text strings.Builder
	for _, p := range parts {
		fmt.Fprintf(&text, "  %-10s %s\n", p.name, p.about)
	}
	return text.String()
}

func (b *bench) run(ctx context.Context, only []string) error {
	for _, name := range only {
		if !slices.ContainsFunc(parts, func(p part) bool { return p.name == name }) {
			return fmt.Errorf("unknown part %q; there are:\n%s", name, listParts())
		}
	}
	chosen := slices.DeleteFunc(slices.Clone(parts), func(p part) bool { return len(only) > 0 && !slices.Contains(only, p.name) })
	clean, err := b.prepare(ctx, chosen)
	if err != nil {
		return err
	}
	defer clean()
	t := table{began: machine()}
	for _, p := range chosen {
		if err := b.measure(ctx, p, &t); err != nil {
			break
		}
	}
	t.print(os.Stdout)
	if t.failed > 0 {
		return fmt.Errorf("%d parts could not be measured", t.failed)
	}
	return ctx.Err()
}

// measure runs one part and adds what it found. An error ends the run; a part that failed does not.
func (b *bench) measure(ctx context.Context, p part, t *table) error {
	began := time.Now()
	fmt.Fprintf(os.Stderr, "measuring %s …\n", p.about)
	limit := p.limit
	switch p.name {
	case "churn":
		limit += b.churn
	case "shrink":
		limit += b.after
	}
	limited, cancel := context.WithTimeoutCause(ctx, limit, fmt.Errorf("not done within %s", limit))
	defer cancel()
	figures, err := p.run(limited, b)
	if err != nil && limited.Err() != nil {
		err = errors.Join(context.Cause(limited), err)
	}
	fmt.Fprintf(os.Stderr, "  %s\n", time.Since(began).Round(100*time.Millisecond))
	t.addPart(p, figures, err)
	return ctx.Err()
}

// prepare finds the sources and binaries, makes the directory for data, and builds the tests that are run.
func (b *bench) prepare(ctx context.Context, chosen []part) (clean func(), err error) {
	if b.root, err = sources(ctx); err != nil {
		return nil, err
	}
	if b.bin == "" {
		b.bin = filepath.Join(b.root, "bin")
	}
	if b.bin, err = filepath.Abs(b.bin); err != nil {
		return nil, fmt.Errorf("find binaries: %w", err)
	}
	if clean, err = b.makeDir(); err != nil {
		return nil, fmt.Errorf("make directory: %w", err)
	}
	fmt.Fprintln(os.Stderr, "building the benchmarks …")
	for _, p := range chosen {
		for _, pkg := range strings.Fields(p.tests) {
			if err := b.buildTests(ctx, pkg); err != nil {
				clean()
				return nil, err
			}
		}
	}
	return clean, nil
}

// makeDir makes the directory for data; clean removes it if it is temporary.
func (b *bench) makeDir() (clean func(), err error) {
	if b.dir == "" {
		b.dir, err = os.MkdirTemp("", "millwright-bench-")
		return func() { _ = os.RemoveAll(b.dir) }, err
	}
	if b.dir, err = filepath.Abs(b.dir); err != nil {
		return nil, err
	}
	return func() {}, os.MkdirAll(b.dir, 0o700)
}
