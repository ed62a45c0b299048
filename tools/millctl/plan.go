package main

import (
	"context"
	"fmt"
	"io"
	"time"

	"github.com/spf13/cobra"

	"millwright/store/audit"
	"millwright/tools/millctl/plan"
)

// planRefused is the exit status when pods were refused; the plan is printed all the same.
const planRefused = exitStatus(2)

func planCommand(t *target) *cobra.Command {
	var c plan.Config
	var output, now string
	var offline, server, disruption, untilSettled bool
	var nodeCost float64
	cmd := &cobra.Command{
		Use: "plan --offline -f FILE-OR-DIR --catalog FILE | plan --server [-f FILE-OR-DIR]", Short: "Plan nodes for pods from files, or what if", Args: cobra.NoArgs,
		Long: `Plan reads Kubernetes objects and a catalogue of instance types from files and prints which NodeClaims the
provisioner would make for the pods that need a place, which nodes that exist take pods, and which pods fit
nowhere, and why. It changes nothing. With --offline the files are all there is, and no cluster is needed. With --server
the files add to, or replace by name, what a running system sees: what would it do with these pods, this NodePool, this
catalogue, these prices? docs/plan.md has the formats.

Exit status: 0 if every pod was placed, 2 if some were refused, 1 if the input or a flag is at fault.`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			switch {
			case offline == server:
				return fmt.Errorf("plan: one of --offline and --server is required")
			case offline && c.Prices != "":
				return fmt.Errorf("plan: --prices goes with --server; offline the catalogue has the prices")
			case output != "json" && output != "table":
				return fmt.Errorf("invalid -o %q: must be json or table", output)
			case c.PreferencePolicy != "" && c.PreferencePolicy != "Respect" && c.PreferencePolicy != "Ignore":
				return fmt.Errorf("invalid --preference-policy %q: must be Respect or Ignore", c.PreferencePolicy)
			case c.MinValuesPolicy != "" && c.MinValuesPolicy != "Strict" && c.MinValuesPolicy != "BestEffort":
				return fmt.Errorf("invalid --min-values-policy %q: must be Strict or BestEffort", c.MinValuesPolicy)
			case !(nodeCost >= 0 && nodeCost <= 1000):
				return fmt.Errorf("invalid --node-cost %v: must be from 0 to 1000", nodeCost)
			case offline && len(c.Files) == 0:
				return fmt.Errorf("plan: no input: give -f FILE-OR-DIR")
			}
			if untilSettled && !disruption || disruption && server {
				return fmt.Errorf("plan: --until-settled goes with --disruption, and that with --offline")
			}
			c.Now, c.Stdin = time.Now(), cmd.InOrStdin()
			if now != "" {
				at, err := time.Parse(time.RFC3339, now)
				if err != nil {
					return fmt.Errorf("invalid --now %q: must be as in 2026-03-02T10:00:00Z", now)
				}
				c.Now = at
			}
			if cmd.Flags().Changed("node-cost") {
				c.NodeCost = &nodeCost
			}
			if disruption {
				return planDisruption(c, untilSettled, output, cmd.OutOrStdout())
			}
			run := plan.Run
			if server {
				run = t.planOn(cmd.Context())
			}
			report, err := run(c)
			if err != nil {
				return err
			}
			write := report.WriteTable
			if output == "json" {
				write = report.WriteJSON
			}
			if err := write(cmd.OutOrStdout()); err != nil {
				return err
			}
			if !report.Complete() {
				return planRefused
			}
			return nil
		},
	}
	f := cmd.Flags()
	f.BoolVar(&offline, "offline", false, "plan from files alone")
	f.BoolVar(&server, "server", false, "plan what a running system would, with the files on top of what it sees")
	f.BoolVar(&disruption, "disruption", false, "plan which nodes would be taken away instead, and where their pods would go")
	f.BoolVar(&untilSettled, "until-settled", false, "with --disruption: carry the commands out one by one until none follows")
	f.StringVar(&c.Prices, "prices", "", "file with prices that replace those known (with --server)")
	f.StringArrayVarP(&c.Files, "filename", "f", nil, "file or directory with objects, YAML or JSON; - is standard input; may be repeated")
	f.StringVar(&c.Catalog, "catalog", "", "file with the instance types of every NodePool (with --server: the system's)")
	f.StringVar(&now, "now", "", "time of the plan (default: the time it is)")
	f.StringVarP(&output, "output", "o", "table", "table or json")
	f.StringVar(&c.PreferencePolicy, "preference-policy", "", "Respect or Ignore preferred affinities and spreads (default: Respect, or the system's)")
	f.Float64Var(&nodeCost, "node-cost", 0, "USD per hour that a node costs by itself; 0: plan by price alone (default: 0.01, or the system's)")
	f.StringVar(&c.FeatureGates, "feature-gates", "", "Name=bool,…, as for the provisioner: NodeOverlay (default: off, or as the system has it)")
	f.StringVar(&c.MinValuesPolicy, "min-values-policy", "", "Strict or BestEffort (default: Strict, or the system's)")
	return cmd
}

// planDisruption prints what the disruptor would do.
func planDisruption(c plan.Config, untilSettled bool, output string, out io.Writer) error {
	report, err := plan.RunDisruption(c, untilSettled)
	if err != nil {
		return err
	}
	if output == "json" {
		return report.WriteJSON(out)
	}
	return report.WriteTable(out)
}

// planOn plans on what the running system knows now.
func (t *target) planOn(ctx context.Context) func(plan.Config) (*plan.Report, error) {
	return func(c plan.Config) (report *plan.Report, err error) {
		s, err := t.open(ctx)
		if err != nil {
			return nil, err
		}
		defer closeInto(s, &err)
		stream, err := s.stream(ctx)
		if err != nil {
			return nil, err
		}
		w, l, err := audit.Present(ctx, s.log, stream)
		if err != nil {
			return nil, fmt.Errorf("plan: %w", err)
		}
		return plan.RunOn(c, plan.Server{World: w, Ledger: l})
	}
}
