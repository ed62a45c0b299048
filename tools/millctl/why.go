package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/url"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"millwright/planner/ledger"
	"millwright/services/console/api"
	"millwright/services/console/history"
	"millwright/services/console/view"
	"millwright/store"
	"millwright/store/audit"
	"millwright/tools/millctl/remote"
)

// subjectKind turns the words of a user into the kind of object as records name it; "" if there is none.
func subjectKind(kind string) string {
	subject, _, _ := strings.Cut(view.Subject(kind, "-/-/-"), "/")
	return subject
}

func whyCommand(t *target) *cobra.Command {
	var since time.Duration
	cmd := &cobra.Command{
		Use: "why " + strings.Join(view.Kinds, "|") + " NAME | why --since SPAN", Short: "Explain what happened to an object, and why",
		Args: func(cmd *cobra.Command, args []string) error {
			if cmd.Flags().Changed("since") {
				return cobra.NoArgs(cmd, args)
			}
			return cobra.ExactArgs(2)(cmd, args)
		},
		ValidArgsFunction: t.completeNames,
		Long: `Why prints the chain of an object, oldest first: what was seen, what was decided, which options were rejected
for what reason and at what price, what was done, and how it ended. It works for objects that no longer exist.
Of a node that is still there it also says what keeps it and since when, what its removal would save, what its pods need
and what else would take them; of a pod that was moved which pods run in its place, and of one that fits nowhere the smallest changes that would let it
run. For that it reads the observations.
Of an offering, which is named TYPE/ZONE/CAPACITYTYPE, it tells which launches it failed, by which record it is marked as unavailable, and until when.
Of a CapacityBuffer it tells where its capacity was found or planned, and what took it away.
NAME of a pod or a CapacityBuffer may be NAMESPACE/NAME; without a namespace it is in that of --namespace, of the kubeconfig's context, or default.
The console, which is asked if no log is named, reaches back 50,000 records.`,
		RunE: func(cmd *cobra.Command, args []string) (err error) {
			if cmd.Flags().Changed("since") {
				return t.summarize(cmd.Context(), cmd.OutOrStdout(), since)
			}
			kind, name := subjectKind(args[0]), t.qualified(args[0], args[1])
			switch {
			case kind == "":
				return fmt.Errorf("explain %q: must be one of %s", args[0], strings.Join(view.Kinds, ", "))
			case view.Subject(args[0], name) == "":
				return fmt.Errorf("explain %s %q: must be TYPE/ZONE/CAPACITYTYPE", kind, name)
			case t.viaConsole():
				return t.whyByConsole(cmd.Context(), cmd.OutOrStdout(), args[0], name)
			}
			s, err := t.open(cmd.Context())
			if err != nil {
				return err
			}
			defer closeInto(s, &err)
			entries, err := s.entriesAbout(cmd.Context(), kind+"/"+name)
			if err != nil {
				return err
			}
			now := s.present(cmd.Context(), kind, name, entries)
			if err := explain(cmd.OutOrStdout(), entries, s.log.ID(), kind, name); err != nil && len(now) == 0 {
				return err
			}
			for _, line := range now {
				fmt.Fprintln(cmd.OutOrStdout(), line)
			}
			return nil
		},
	}
	cmd.Flags().DurationVar(&since, "since", 0, "say instead in sentences what happened in this span, such as 1h")
	return cmd
}

// summarize says what happened in the span before now.
func (t *target) summarize(ctx context.Context, out io.Writer, span time.Duration) (err error) {
	if span <= 0 {
		return fmt.Errorf("invalid --since %s: must be positive", span)
	}
	var sentences []string
	if t.viaConsole() {
		err = t.askConsole(ctx, func(c *remote.Client) error {
			answer := &api.Summary{}
			err := c.Get(ctx, "/summary", url.Values{"since": {span.String()}}, answer)
			sentences = answer.Sentences
			return err
		})
	} else {
		sentences, err = t.summaryOfLog(ctx, span)
	}
	for _, s := range sentences {
		fmt.Fprintln(out, s)
	}
	return err
}

// summaryOfLog reads the log itself.
func (t *target) summaryOfLog(ctx context.Context, span time.Duration) (_ []string, err error) {
	s, err := t.open(ctx)
	if err != nil {
		return nil, err
	}
	defer closeInto(s, &err)
	past := history.New(s.log.ID())
	err = eachRecord(ctx, s.log, func(rec store.Record) error {
		e, err := audit.Decode(rec)
		if errors.Is(err, ledger.ErrUnknownKind) {
			return nil
		}
		if err == nil {
			past.Add(e)
		}
		return err
	})
	now := time.Now()
	return past.Summary(now.Add(-span), now), err
}

// explain prints the story of a subject. Nothing on record is a failure: the name may be misspelt.
func explain(out io.Writer, entries []ledger.Entry, logID, kind, name string) error {
	if (kind == "pod" || kind == "capacitybuffer") && !strings.Contains(name, "/") {
		name = "default/" + name
	}
	lines := audit.WhyOf(entries, logID, kind+"/"+name)
	if len(lines) == 0 {
		return fmt.Errorf("explain %s %s: the log has nothing about it", kind, name)
	}
	printStory(out, lines)
	return nil
}

func printStory(out io.Writer, lines []audit.Line) {
	for _, l := range lines {
		fmt.Fprintf(out, "%s  #%-5d %-8s %s\n", l.Time.UTC().Format("2006-01-02 15:04:05.000"), l.Seq, l.Step, l.Text)
		for _, d := range l.Details {
			fmt.Fprintf(out, "%41s%s\n", "", d)
		}
	}
}
