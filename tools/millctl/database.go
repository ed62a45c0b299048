package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/spf13/cobra"

	"millwright/store"
	"millwright/store/audit/overview"
	"millwright/store/audit/relief"
)

// rateRecords is the number of recent records over which the rate is measured.
const rateRecords = 1000

// databaseState asks etcd, which answers only users with the role root, where users are enabled.
func (s *session) databaseState(ctx context.Context, now time.Time) (*overview.DatabaseStatus, error) {
	if s.database == nil {
		return nil, errors.New("the log is in no database")
	}
	u, err := s.database.Usage(ctx)
	if err != nil {
		return nil, fmt.Errorf("usage of the log's database: %w", err)
	}
	base, err := s.database.Base(ctx)
	if err != nil {
		return nil, err
	}
	head, err := s.database.Head(ctx)
	if err != nil {
		return nil, err
	}
	d := &overview.DatabaseStatus{QuotaBytes: u.QuotaBytes, QuotaAssumed: u.Assumed, FileBytes: u.FileBytes, UsedBytes: u.UsedBytes, NoSpace: u.NoSpace, Archived: base.Seq}
	from := max(base.Seq+1, head.Seq-min(head.Seq, rateRecords))
	first, err := s.database.Stored(ctx, from, 1)
	if err != nil || len(first) == 0 {
		return d, err
	}
	d.FullAt = fullAt(u, head.Seq-base.Seq, head.Seq-from, now.Sub(first[0].Time), now)
	return d, nil
}

// fullAt extrapolates: live records fill what is used, and recent ones came within a time.
func fullAt(u store.Usage, live, recent uint64, took time.Duration, now time.Time) time.Time {
	if u.Assumed || live == 0 || recent == 0 || took <= 0 || u.UsedBytes == 0 {
		return time.Time{}
	}
	each := float64(u.UsedBytes) / float64(live)
	left := max(0, float64(u.QuotaBytes-u.UsedBytes)) / each / float64(recent) * float64(took)
	if left > float64(100*365*24*time.Hour) {
		return time.Time{}
	}
	return now.Add(time.Duration(left)).UTC()
}

func (st *status) printDatabase(w io.Writer) {
	d := st.Database
	if d == nil {
		fmt.Fprintf(w, "database of the log: %s\n", st.DatabaseError)
		return
	}
	fmt.Fprintf(w, "database of the log: %d of %d MiB used", d.UsedBytes>>20, d.QuotaBytes>>20)
	if d.QuotaAssumed {
		fmt.Fprint(w, " (etcd's default: it reports no quota of its own)")
	}
	switch {
	case d.NoSpace:
		fmt.Fprint(w, ", FULL: it takes no writes (millctl log relieve)")
	case !st.Archive:
		fmt.Fprint(w, ", no archive is known here")
	case d.Archived > 0:
		fmt.Fprintf(w, ", records up to %d are archived", d.Archived)
	}
	if !d.FullAt.IsZero() && !d.NoSpace {
		fmt.Fprintf(w, "; without archiving full in about %s", days(d.FullAt.Sub(st.At)))
	}
	fmt.Fprintln(w)
}

// days writes a span of time in the unit people would use.
func days(d time.Duration) string {
	if d >= 48*time.Hour {
		return fmt.Sprintf("%d days", int(d.Hours()/24))
	}
	return d.Round(time.Minute).String()
}

func relieveCommand(t *target) *cobra.Command {
	return &cobra.Command{
		Use: "relieve", Short: "Make room in a log whose database is full", Args: cobra.NoArgs,
		Long: `Relieve gives up the history that etcd keeps of all keys, defragments it, archives the records up to the newest checkpoint if more than
half of the quota is in use after that, and has etcd take writes again. It needs no leader, and may run beside one. The lifecycle
service does the same by itself.`,
		RunE: func(cmd *cobra.Command, _ []string) (err error) {
			s, err := t.open(cmd.Context())
			if err != nil {
				return err
			}
			defer closeInto(s, &err)
			o, err := relief.Relieve(cmd.Context(), relief.Config{Cluster: t.cluster, Database: s.database, Log: s.log, Archive: s.archive})
			if o.Before.QuotaBytes > 0 && o.After.QuotaBytes > 0 {
				fmt.Fprintf(cmd.OutOrStdout(), "from %d to %d of %d MiB; %d records archived\n", o.Before.FileBytes>>20, o.After.FileBytes>>20,
					o.After.QuotaBytes>>20, o.Archived)
			}
			for _, note := range []string{o.Kept, o.Large} {
				if note != "" {
					fmt.Fprintln(cmd.OutOrStdout(), note)
				}
			}
			return err
		},
	}
}
