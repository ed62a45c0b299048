package main

import (
	"context"
	"fmt"
	"io"
	"maps"
	"net/url"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"millwright/services/console/api"
	"millwright/store"
	"millwright/store/audit/overview"
	"millwright/store/audit/subjects"
	"millwright/tools/millctl/remote"
	"millwright/tools/millctl/screen"
)

func healthCommand(t *target) *cobra.Command {
	var o output
	var since time.Duration
	cmd := &cobra.Command{
		Use: "health", Short: "Rank images, instance types and zones by the nodes that failed", Args: cobra.NoArgs,
		Long: `Health counts in the log the nodes that were replaced because they failed: unhealthy (node repair), checks of EC2 that did not pass, nodes
that never registered. It ranks the images, instance types and zones they ran on, beside how many instances were launched with
each. Only records that are still kept are counted, and the newest 100,000 launches and failures.`,
		RunE: func(cmd *cobra.Command, _ []string) (err error) {
			if err := o.check(); err != nil {
				return err
			}
			return o.repeat(cmd.Context(), cmd.OutOrStdout(), func(out io.Writer) error {
				rows, err := t.health(cmd.Context(), since)
				if err != nil {
					return err
				}
				var names []string
				for i := range rows {
					names = append(names, rows[i].Of+"/"+rows[i].Name)
				}
				if o.format == formatName {
					return printEach(out, names)
				}
				return o.write(out, rows, func(out io.Writer) error { return printHealth(out, rows) })
			})
		},
	}
	o.registerAll(cmd.Flags())
	o.registerWatch(cmd.Flags(), t)
	screen.SpanVar(cmd.Flags(), &since, "since", 0, "count only what is younger than this; 0: everything kept")
	return cmd
}

func printEach(out io.Writer, list []string) error {
	for _, text := range list {
		if _, err := fmt.Fprintln(out, text); err != nil {
			return err
		}
	}
	return nil
}

// health of a span, by console or log; 0: of all that is kept.
func (t *target) health(ctx context.Context, since time.Duration) (rows []overview.HealthRow, err error) {
	if t.viaConsole() {
		query := url.Values{}
		if since > 0 {
			query.Set("since", since.String())
		}
		answer := &api.Health{}
		err = t.askConsole(ctx, func(c *remote.Client) error { return c.Get(ctx, "/health", query, answer) })
		return answer.Items, err
	}
	s, err := t.open(ctx)
	if err != nil {
		return nil, err
	}
	defer closeInto(s, &err)
	h := &overview.Health{}
	err = eachRecord(ctx, s.log, func(rec store.Record) error {
		h.Add(subjects.Decode(rec))
		return nil
	})
	after := time.Time{}
	if since > 0 {
		after = time.Now().Add(-since)
	}
	return h.Rows(after), err
}

func printHealth(out io.Writer, rows []overview.HealthRow) error {
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
