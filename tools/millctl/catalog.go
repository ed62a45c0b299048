package main

import (
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"millwright/services/version"
	watcherec2 "millwright/services/watcher/ec2"
	"millwright/tools/millctl/preview"
)

// memoryOverhead is the default of --vm-memory-overhead-percent, as of the services.
const memoryOverhead = 0.075

func catalogCommand() *cobra.Command {
	var files []string
	var o output
	var diff string
	var priceTimeout time.Duration
	opts := watcherec2.Options{}
	cmd := &cobra.Command{
		Use: "catalog -f NODECLASS", Short: "Print what EC2 offers to an EC2NodeClass", Args: cobra.NoArgs,
		Long: `Catalog asks EC2 (AWS_REGION, AWS_ENDPOINT_URL and the usual credentials) which instance types it has, and prints what Millwright makes of
them for an EC2NodeClass: labels, capacity, overhead, what pods can have, and offerings with their prices. It needs no cluster. Zones are
those of the class's status, or of the subnets that its terms select. Prices that cannot be asked for are built in, or absent.`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if len(files) == 0 {
				return fmt.Errorf("catalog: no input: give -f NODECLASS")
			}
			if err := o.check(); err != nil {
				return err
			}
			objects, err := preview.Read(files, cmd.InOrStdin())
			if err != nil {
				return fmt.Errorf("catalog: %w", err)
			}
			nc, err := objects.NodeClass()
			if err != nil {
				return fmt.Errorf("catalog: %w", err)
			}
			offer, notes, err := watcherec2.LookUp(cmd.Context(), version.Version, nc, opts, priceTimeout)
			for _, n := range notes {
				fmt.Fprintln(cmd.ErrOrStderr(), n)
			}
			if err != nil {
				return fmt.Errorf("catalog: %w", err)
			}
			c := preview.NewCatalog(offer)
			if diff != "" {
				return c.WriteDiff(cmd.OutOrStdout(), diff)
			}
			return o.write(cmd.OutOrStdout(), c, c.WriteTable)
		},
	}
	f := cmd.Flags()
	f.StringArrayVarP(&files, "filename", "f", nil, "file with the EC2NodeClass, YAML or JSON; - is standard input; may be repeated")
	o.register(f)
	f.StringVar(&diff, "diff", "", "file of an earlier catalogue (-o json): print what has changed since, instead")
	f.IntVar(&opts.ReservedENIs, "reserved-enis", 0, "network interfaces that pods do not get")
	f.Float64Var(&opts.VMMemoryOverheadPercent, "vm-memory-overhead-percent", memoryOverhead, "share of memory that the hypervisor takes")
	f.DurationVar(&priceTimeout, "price-timeout", time.Minute, "how long the price API, and then the spot price history, are waited for")
	f.BoolVar(&opts.IsolatedVPC, "isolated-vpc", false, "the price API cannot be reached: take built-in prices")
	return cmd
}
