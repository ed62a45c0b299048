package main

import (
	"cmp"
	"fmt"
	"io"
	"maps"
	"math"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"millwright/planner/ledger"
	"millwright/store/audit/overview"
	"millwright/tools/millctl/screen"
)

// listedMax bounds the commands, drains and alarms that text shows; -o wide and JSON have all.
const listedMax = 10

func (st *status) print(out io.Writer, wide bool) error {
	most := listedMax
	if wide {
		most = math.MaxInt
	}
	w := &screen.Painted{Writer: &strings.Builder{}, Colours: screen.Colours(out)}
	fmt.Fprintf(w, "cluster %s, log %s: %d records, the last %s ago\n", st.Cluster, st.LogID, st.Head, st.age(st.Last))
	if st.Offline {
		fmt.Fprintln(w, "no process serves this data directory")
	}
	st.printStop(w)
	st.printServices(w)
	st.printStream(w)
	st.printDatabase(w)
	st.printClaims(w)
	list(w, most, "commands", st.Commands, func(c overview.CommandStatus) string {
		return fmt.Sprintf("%s %s for %s: %s %s", c.ID, c.State, st.age(c.At), c.Reason, strings.Join(c.Nodes, ", "))
	})
	list(w, most, "drains", st.Drains, func(d overview.DrainStatus) string {
		state := fmt.Sprintf("tier %d", d.Tier)
		if d.Drained {
			state = "drained"
		}
		return fmt.Sprintf("%s for %s: %s (%s)", d.Node, st.age(d.At), state, d.Reason)
	})
	list(w, most, "alarms of the last day", st.Alarms, func(a overview.AlarmStatus) string {
		return fmt.Sprintf("record %d, %s ago: %s: %s", a.Seq, st.age(a.At), a.Reason, a.Message)
	})
	_, err := io.WriteString(out, w.Writer.(*strings.Builder).String())
	return err
}

func (st *status) printStop(w io.Writer) {
	if s := st.Stop; s != nil {
		when := ""
		if !s.At.IsZero() {
			when = fmt.Sprintf(" since %s (record %d)", s.At.UTC().Format(time.RFC3339), s.Seq)
		}
		fmt.Fprintf(w, "%s: %s by %s%s: %s\n", screen.Paint(w, screen.Red, "STOPPED"), s.Level, s.By, when, s.Why)
		return
	}
	fmt.Fprintln(w, "not stopped")
}

func (st *status) printServices(out io.Writer) {
	w := tabwriter.NewWriter(out, 0, 4, 2, ' ', 0)
	fmt.Fprintln(w, "\nSERVICE\tLEADER\tVERSION\tMODE\tSTOP\tRECORDS BEHIND\tAS OF\tPOSITION\tREPORTED")
	for _, s := range st.Services {
		leader := cmp.Or(s.Identity, "none")
		if s.ReportedAt.IsZero() {
			fmt.Fprintf(w, "%s\t%s\t%s\t%s\t\t\t\t\t\n", s.Service, leader, dash(s.Version), dash(string(s.Mode)))
			continue
		}
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\t%d\t%s\t%d\t%s ago\n", s.Service, leader, dash(s.Version), s.Mode, dash(s.Stop), s.Lag,
			st.ago(s.AsOf, s.ReportedAt), s.Position, st.age(s.ReportedAt))
	}
	_ = w.Flush()
	for _, s := range st.Services {
		switch {
		case s.Clock != "":
			fmt.Fprintf(out, "%s: %s stands down: %s\n", s.Service, s.Identity, s.Clock)
		case s.Identity == "" && !st.Offline:
			fmt.Fprintf(out, "%s: nobody leads; %s\n", s.Service, st.whyUnled())
		}
	}
}

// whyUnled is what keeps a service from having a leader, as far as it shows from here.
func (st *status) whyUnled() string {
	if d := st.Database; d != nil && d.NoSpace {
		return "nobody can be elected while the database of the log is full"
	}
	return "/readyz of its processes says why: one whose clock is off stands down"
}

// ago is how old a World was when it was reported.
func (st *status) ago(asOf, reported time.Time) string {
	if asOf.IsZero() {
		return "never"
	}
	return max(0, reported.Sub(asOf)).Round(time.Millisecond).String() + " old"
}

func (st *status) printStream(w io.Writer) {
	if st.Stream == nil {
		fmt.Fprintf(w, "\nstream: %s\n", st.StreamError)
		return
	}
	messages := fmt.Sprintf("messages %d to %d", st.Stream.First, st.Stream.Last)
	if st.Stream.First == 0 { // the console knows only how far it has read
		messages = fmt.Sprintf("read to message %d", st.Stream.Last)
	}
	fmt.Fprintf(w, "\nstream %s: %s%s\n", st.Stream.Incarnation, messages, placement(st.Stream))
}

// placement says what a server that dies would do to the stream; nothing if it is embedded.
func placement(s *overview.StreamStatus) string {
	switch {
	case s.Replicas == 0:
		return ""
	case s.Replicas < s.ReplicasPossible:
		return fmt.Sprintf(", %d of %d possible replicas: planning stops while a server that has the only ones is away", s.Replicas, s.ReplicasPossible)
	case s.ReplicasOffline > 0:
		return fmt.Sprintf(", %d replicas of which %d are offline", s.Replicas, s.ReplicasOffline)
	}
	return fmt.Sprintf(", %d replicas", s.Replicas)
}

func (st *status) printClaims(w io.Writer) {
	total := 0
	var parts []string
	for _, state := range slices.SortedFunc(maps.Keys(st.Claims), func(a, b ledger.ClaimState) int { return strings.Compare(string(a), string(b)) }) {
		total += st.Claims[state]
		parts = append(parts, fmt.Sprintf("%d %s", st.Claims[state], state))
	}
	fmt.Fprintf(w, "open claims: %d", total)
	if total > 0 {
		fmt.Fprintf(w, " (%s), %d of them going", strings.Join(parts, ", "), st.Going)
	}
	fmt.Fprintln(w)
}

func list[T any](w io.Writer, most int, what string, items []T, text func(T) string) {
	fmt.Fprintf(w, "%s: %d\n", what, len(items))
	for _, x := range items[:min(len(items), most)] {
		fmt.Fprintf(w, "  %s\n", text(x))
	}
	if more := len(items) - most; more > 0 {
		fmt.Fprintf(w, "  and %d more\n", more)
	}
}

func (st *status) age(t time.Time) string { return max(0, st.At.Sub(t)).Round(time.Second).String() }

func dash(s string) string { return cmp.Or(s, "-") }
