package main

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"millwright/planner/ledger"
	"millwright/store"
	"millwright/store/audit"
)

// healthRow counts how many instances with one property failed.
type healthRow struct {
	// Of is image, type or zone.
	Of       string `json:"of"`
	Name     string `json:"name"`
	Failed   int    `json:"failed"`
	Launched int    `json:"launched"`
	// Causes are reasons of ClaimDoomed, with the Node's condition if that is why, by how often they were.
	Causes map[string]int `json:"causes"`
}

func healthCommand(t *target) *cobra.Command {
	var o output
	var since time.Duration
	cmd := &cobra.Command{
		Use: "health", Short: "Rank images, instance types and zones by the nodes that failed", Args: cobra.NoArgs,
		Long: `Health counts in the log the nodes that were replaced because they failed: unhealthy (node repair), checks of EC2 that did not pass, nodes
that never registered. It ranks the images, instance types and zones they ran on, beside how many instances were launched with
each. Only records that are still kept are counted.`,
		RunE: func(cmd *cobra.Command, _ []string) (err error) {
			if err := o.check(); err != nil {
				return err
			}
			s, err := t.open(cmd.Context())
			if err != nil {
				return err
			}
			defer closeInto(s, &err)
			h := newHealth()
			err = eachRecord(cmd.Context(), s.log, func(rec store.Record) error {
				e, err := audit.Decode(rec)
				if errors.Is(err, ledger.ErrUnknownKind) {
					return nil
				}
				if err == nil && (since == 0 || time.Since(e.Time) <= since) {
					h.addRecord(e)
				}
				return err
			})
			if err != nil {
				return err
			}
			return o.write(cmd.OutOrStdout(), h.ranked(), func(out io.Writer) error { return printHealth(out, h.ranked()) })
		},
	}
	o.register(cmd.Flags())
	cmd.Flags().DurationVar(&since, "since", 0, "count only what is younger than this; 0: everything kept")
	return cmd
}

// health counts instances by what they ran on.
type health struct{ rows map[[2]string]*healthRow }

func newHealth() *health { return &health{rows: map[[2]string]*healthRow{}} }

func (h *health) row(of, name string) *healthRow {
	key := [2]string{of, name}
	if h.rows[key] == nil {
		h.rows[key] = &healthRow{Of: of, Name: name, Causes: map[string]int{}}
	}
	return h.rows[key]
}

func (h *health) addRecord(e ledger.Entry) {
	if e.Mode == ledger.ModeShadow {
		return
	}
	switch p := e.Payload.(type) {
	case *ledger.Launched:
		h.addLaunch(p)
	case *ledger.FleetAnswered:
		for i := range p.Launched {
			h.addLaunch(&p.Launched[i])
		}
	case *ledger.ClaimDoomed:
		if f := p.Failed; f != nil {
			cause := p.Reason
			if f.Cause != "" {
				cause += " (" + f.Cause + ")"
			}
			for _, r := range h.rowsOf(f.ImageID, f.InstanceType, f.Zone) {
				r.Failed++
				r.Causes[cause]++
			}
		}
	}
}

func (h *health) addLaunch(p *ledger.Launched) {
	for _, r := range h.rowsOf(p.ImageID, p.InstanceType, p.Zone) {
		r.Launched++
	}
}

func (h *health) rowsOf(image, instanceType, zone string) (list []*healthRow) {
	for _, x := range [][2]string{{"image", image}, {"type", instanceType}, {"zone", zone}} {
		if x[1] != "" {
			list = append(list, h.row(x[0], x[1]))
		}
	}
	return list
}

// ranked are the rows with failures: by what they are of, those with most failures first, then those with
// the largest share.
func (h *health) ranked() []*healthRow {
	list := slices.DeleteFunc(slices.Collect(maps.Values(h.rows)), func(r *healthRow) bool { return r.Failed == 0 })
	slices.SortFunc(list, func(a, b *healthRow) int {
		return cmp.Or(cmp.Compare(a.Of, b.Of), cmp.Compare(b.Failed, a.Failed), cmp.Compare(a.Launched, b.Launched), cmp.Compare(a.Name, b.Name))
	})
	return list
}

func printHealth(out io.Writer, rows []*healthRow) error {
	if len(rows) == 0 {
		_, err := fmt.Fprintln(out, "no node on record has failed")
		return err
	}
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "OF\tNAME\tFAILED\tLAUNCHED\tCAUSES")
	for _, r := range rows {
		var causes []string
		for _, c := range slices.Sorted(maps.Keys(r.Causes)) {
			causes = append(causes, fmt.Sprintf("%d %s", r.Causes[c], c))
		}
		fmt.Fprintf(w, "%s\t%s\t%d\t%d\t%s\n", r.Of, r.Name, r.Failed, r.Launched, strings.Join(causes, ", "))
	}
	return w.Flush()
}
