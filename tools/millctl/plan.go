package main

import (
	"context"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"millwright/planner/options"
	"millwright/services/console/view"
	"millwright/store/audit"
	"millwright/store/audit/plan"
	"millwright/tools/millctl/remote"
	"millwright/tools/millctl/sources"
)

// planRefused is the exit status when pods were refused; the plan is printed all the same.
const planRefused = exitStatus(2)

// planFlags are the flags of millctl plan.
type planFlags struct {
	plan.Config
	// files and directories with objects; "-" is standard input.
	files                                     []string
	catalog, prices                           string
	o                                         output
	now                                       string
	offline, server, disruption, untilSettled bool
	nodeCost, evictionCost                    float64
	// table is the plan as the console has written it; "": it was made here.
	table string
}

func planCommand(t *target) *cobra.Command {
	p := &planFlags{}
	cmd := &cobra.Command{
		Use: "plan --offline -f FILE-OR-DIR --catalog FILE | plan --server [-f FILE-OR-DIR]", Short: "Plan nodes for pods from files, or answer what-if questions", Args: cobra.NoArgs,
		Long: `Plan reads Kubernetes objects and a catalogue of instance types from files and prints which NodeClaims the
provisioner would make for the pods that need a place, which nodes that exist take pods, and which pods fit
nowhere, and why. It changes nothing. With --offline the files are all there is, and no cluster is needed. With --server
the files add to, or replace by name, what a running system sees: what would it do with these pods, this NodePool, this
catalogue, these prices? From a kubeconfig alone the console plans, for at most 1 MiB of files and within 20 seconds. docs/plan.md has the formats.

Exit status: 0 if every pod was placed, 2 if some were refused, 1 if the input or a flag is at fault.`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := p.check(); err != nil {
				return err
			}
			if err := p.open(cmd.InOrStdin()); err != nil {
				return err
			}
			if cmd.Flags().Changed("node-cost") {
				p.NodeCost = &p.nodeCost
			}
			if cmd.Flags().Changed("eviction-cost") {
				p.EvictionCost = &p.evictionCost
			}
			if unknown := options.UnknownFeatureGates(p.FeatureGates); len(unknown) > 0 {
				cmd.PrintErrf("millctl: --feature-gates: %s is unknown and ignored; known are %s\n", strings.Join(unknown, ", "), strings.Join(options.FeatureGates(), ", "))
			}
			return p.run(cmd.Context(), t, cmd.OutOrStdout())
		},
	}
	p.register(cmd.Flags())
	return cmd
}

func (p *planFlags) register(f *pflag.FlagSet) {
	f.BoolVar(&p.offline, "offline", false, "plan from files alone")
	f.BoolVar(&p.server, "server", false, "plan what a running system would, with the files on top of what it sees")
	f.BoolVar(&p.disruption, "disruption", false, "plan instead which nodes would be removed, and where their pods would go")
	f.BoolVar(&p.untilSettled, "until-settled", false, "with --disruption: carry the commands out one by one until none follows")
	f.DurationVar(&p.NodeTime, "node-time", plan.DefaultNodeTime, "with --server --disruption: how long the replacement of a node takes, for the time of a roll-out")
	f.StringVar(&p.prices, "prices", "", "file with prices that replace those known (with --server)")
	f.StringArrayVarP(&p.files, "filename", "f", nil, "file or directory with objects, YAML or JSON; - is standard input; may be repeated")
	f.StringVar(&p.catalog, "catalog", "", "file with the instance types of every NodePool (with --server: the system's)")
	f.StringVar(&p.now, "now", "", "time of the plan (default: now)")
	p.o.register(f)
	f.BoolVar(&p.Workloads, "workloads", false, "Deployments, StatefulSets, ReplicaSets and Jobs stand for as many pods as they ask for, beside the pods that there are")
	f.StringVar(&p.PreferencePolicy, "preference-policy", "", "Respect or Ignore preferred affinities and spreads (default: Respect, or the system's)")
	f.Float64Var(&p.nodeCost, "node-cost", 0, "USD per hour that a node costs on top of its price; 0: plan by price alone (default: 0.01, or the system's)")
	f.Float64Var(&p.evictionCost, "eviction-cost", 0, "with --disruption: USD that consolidation must save for each pod that it evicts; 0: any saving will do (default: 0, or the system's)")
	f.StringVar(&p.FeatureGates, "feature-gates", "", "Name=bool,…, as for the provisioner: NodeOverlay, CapacityBuffer (default: off, or as the system has it)")
	f.StringVar(&p.MinValuesPolicy, "min-values-policy", "", "Strict or BestEffort (default: Strict, or the system's)")
}

// check refuses flags that exclude each other and unknown values, and reads the time.
func (p *planFlags) check() error {
	if err := p.o.check(); err != nil {
		return err
	}
	switch {
	case p.offline == p.server:
		return fmt.Errorf("plan: one of --offline and --server is required")
	case p.offline && p.prices != "":
		return fmt.Errorf("plan: --prices goes with --server; offline the catalogue has the prices")
	case p.PreferencePolicy != "" && p.PreferencePolicy != "Respect" && p.PreferencePolicy != "Ignore":
		return fmt.Errorf("invalid --preference-policy %q: must be Respect or Ignore", p.PreferencePolicy)
	case p.MinValuesPolicy != "" && p.MinValuesPolicy != "Strict" && p.MinValuesPolicy != "BestEffort":
		return fmt.Errorf("invalid --min-values-policy %q: must be Strict or BestEffort", p.MinValuesPolicy)
	case !(p.nodeCost >= 0 && p.nodeCost <= 1000):
		return fmt.Errorf("invalid --node-cost %v: must be from 0 to 1000", p.nodeCost)
	case !(p.evictionCost >= 0 && p.evictionCost <= 1000):
		return fmt.Errorf("invalid --eviction-cost %v: must be from 0 to 1000", p.evictionCost)
	case p.offline && len(p.files) == 0:
		return fmt.Errorf("plan: no input: give -f FILE-OR-DIR")
	case p.untilSettled && !p.disruption:
		return fmt.Errorf("plan: --until-settled goes with --disruption")
	case p.NodeTime <= 0:
		return fmt.Errorf("invalid --node-time %s: must be positive", p.NodeTime)
	}
	if p.now == "" {
		p.Now = time.Now()
		return nil
	}
	at, err := time.Parse(time.RFC3339, p.now)
	if err != nil {
		return fmt.Errorf("invalid --now %q: must be as in 2026-03-02T10:00:00Z", p.now)
	}
	p.Now = at
	return nil
}

// open finds the files.
func (p *planFlags) open(stdin io.Reader) (err error) {
	p.Clock = time.Now
	if p.Sources, err = sources.List(p.files, p.catalog, stdin); err != nil {
		return err
	}
	if p.catalog != "" {
		p.Catalog = sources.File(p.catalog)
	}
	if p.prices != "" {
		p.Prices = sources.File(p.prices)
	}
	return nil
}

// run plans and prints the plan.
func (p *planFlags) run(ctx context.Context, t *target, out io.Writer) error {
	if p.disruption {
		return p.runDisruption(ctx, t, out)
	}
	report, err := p.provisioning(ctx, t)
	if err != nil {
		return err
	}
	if err := p.write(out, report); err != nil {
		return err
	}
	if !report.Complete() {
		return planRefused
	}
	return nil
}

func (p *planFlags) provisioning(ctx context.Context, t *target) (report *plan.Report, err error) {
	if p.offline {
		return plan.Run(p.Config)
	}
	if t.viaConsole() {
		x, err := p.byConsole(ctx, t)
		p.table = x.ProvisioningText
		return x.Provisioning, err
	}
	err = t.onPresent(ctx, func(s plan.Server) error {
		report, err = plan.RunOn(p.Config, s)
		return err
	})
	return report, err
}

// runDisruption prints what the disruptor would do.
func (p *planFlags) runDisruption(ctx context.Context, t *target, out io.Writer) (err error) {
	var report *plan.Disruption
	switch {
	case p.offline:
		report, err = plan.RunDisruption(p.Config, p.untilSettled)
	case t.viaConsole():
		var x *view.Plan
		x, err = p.byConsole(ctx, t)
		report, p.table = x.Disruption, x.DisruptionText
	default:
		err = t.onPresent(ctx, func(s plan.Server) (err error) {
			report, err = plan.RunDisruptionOn(p.Config, s, p.untilSettled)
			return err
		})
	}
	if err != nil {
		return err
	}
	return p.write(out, report)
}

// byConsole has the console plan; what it returns is never nil.
func (p *planFlags) byConsole(ctx context.Context, t *target) (x *view.Plan, err error) {
	x = &view.Plan{}
	return x, t.askConsole(ctx, func(c *remote.Client) error {
		return c.Plan(ctx, p.Config, remote.PlanKind{Disruption: p.disruption, Settled: p.untilSettled, At: p.now}, x)
	})
}

// write prints a plan, whose JSON has a line for each claim or command.
func (p *planFlags) write(out io.Writer, report interface {
	WriteJSON(io.Writer) error
	WriteTable(io.Writer) error
}) error {
	if p.o.format == formatJSON {
		return report.WriteJSON(out)
	}
	return p.o.write(out, report, func(out io.Writer) error {
		if p.table == "" {
			return report.WriteTable(out)
		}
		_, err := io.WriteString(out, p.table)
		return err
	})
}

// onPresent runs fn on what the running system knows now.
func (t *target) onPresent(ctx context.Context, fn func(plan.Server) error) (err error) {
	s, err := t.open(ctx)
	if err != nil {
		return err
	}
	defer closeInto(s, &err)
	stream, err := s.stream(ctx)
	if err != nil {
		return err
	}
	w, l, err := audit.Present(ctx, s.log, stream)
	if err != nil {
		return fmt.Errorf("plan: %w", err)
	}
	return fn(plan.Server{World: w, Ledger: l})
}
