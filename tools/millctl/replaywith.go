package main

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"millwright/store/audit"
	"millwright/store/audit/plan"
	"millwright/store/audit/whatif"
	"millwright/tools/millctl/replays"
	"millwright/tools/millctl/sources"
)

// changeFlags say what is laid over the Snapshots of a replay.
type changeFlags struct {
	files, options []string
	since, until   string
	output         output
	stdin          io.Reader
	read           whatif.Change
	// sources are the files as they were read.
	sources []plan.Source
}

func (c *changeFlags) register(cmd *cobra.Command) {
	f := cmd.Flags()
	f.StringArrayVar(&c.files, "with", nil, "file or directory with NodePools, EC2NodeClasses, DisruptionPolicies, NodeOverlays or price lists to plan with instead; - is standard input; may be given again")
	f.StringArrayVar(&c.options, "option", nil, "NAME=VALUE: a planner option to plan with instead, such as node-cost=0.02; may be given again")
	f.StringVar(&c.since, "since", "", "only decisions younger than this, such as 24h, or a time")
	f.StringVar(&c.until, "until", "", "only decisions older than this, such as 1h, or a time")
	c.output.register(f, formatWide)
	f.Lookup("output").Usage = "with --with or --option: " + f.Lookup("output").Usage + " (with the decisions that came out the same)"
	for _, other := range []string{"bundle", "recording"} {
		cmd.MarkFlagsMutuallyExclusive(other, "since")
		cmd.MarkFlagsMutuallyExclusive(other, "until")
	}
	cmd.MarkFlagsMutuallyExclusive("from", "since")
	cmd.MarkFlagsMutuallyExclusive("to", "until")
	cmd.MarkFlagsMutuallyExclusive("save", "with")
	cmd.MarkFlagsMutuallyExclusive("save", "option")
}

func (c *changeFlags) given() bool { return len(c.files) > 0 || len(c.options) > 0 }

// check reads the change.
func (c *changeFlags) check(cmd *cobra.Command) (err error) {
	if err := c.output.check(); err != nil {
		return err
	}
	switch {
	case !c.given() && cmd.Flags().Changed("output"):
		return errors.New("replay: -o goes with --with or --option")
	case len(c.files) > 0:
		files, err := sources.List(c.files, "", c.stdin)
		if err != nil {
			return err
		}
		if c.sources, err = sources.Kept(files); err != nil {
			return err
		}
		read, err := plan.ReadChange(c.sources)
		if err != nil {
			return err
		}
		c.read.Objects, c.read.Prices = read.Objects, read.Prices
	}
	for _, text := range c.options {
		if err := c.read.SetOption(text); err != nil {
			return fmt.Errorf("invalid --option: %w", err)
		}
	}
	return nil
}

func (c *changeFlags) run(ctx context.Context, out io.Writer, log audit.Log, stream audit.Stream, within audit.Range) error {
	report, err := whatif.Run(ctx, log, stream, whatif.Request{Range: within, Change: c.read})
	if err != nil {
		return err
	}
	return c.print(out, report)
}

func (c *changeFlags) print(out io.Writer, report *whatif.Report) error {
	return c.output.write(out, report, func(out io.Writer) error { return replays.PrintInstead(out, report, c.output.format == formatWide) })
}
