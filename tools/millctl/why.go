package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"millwright/planner/ledger"
	"millwright/services/console/api"
	"millwright/services/console/history"
	"millwright/services/console/view"
	"millwright/store"
	"millwright/store/audit"
	"millwright/tools/millctl/arguments"
	"millwright/tools/millctl/remote"
	"millwright/tools/millctl/screen"
)

// subjectKind turns the words of a user into the kind of object as records name it; "" if there is none.
func subjectKind(kind string) string {
	subject, _, _ := strings.Cut(view.Subject(kind, "-/-/-"), "/")
	return subject
}

func whyCommand(t *target) *cobra.Command {
	var o output
	var since time.Duration
	cmd := &cobra.Command{
		Use: "why " + strings.Join(view.Kinds, "|") + " NAME | why --since SPAN", Short: "Explain what happened to an object, and why",
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) == 0 && cmd.Flags().Changed("since") {
				return nil
			}
			return arguments.Exactly(2)(cmd, args)
		},
		ValidArgsFunction: t.completeNames,
		Long: `Why prints the chain of an object, oldest first: what was seen, what was decided, which options were rejected
for what reason and at what price, what was done, and how it ended. It works for objects that no longer exist.
Of a node that is still there it also says what keeps it and since when, what its removal would save, what its pods need
and what else would take them; of a pod that was moved which pods run in its place, and of one that fits nowhere the smallest changes that would let it
run. For that it reads the observations.
Of a NodeClaim or an instance that is not a node yet it says what keeps it from that; of a NodePool what it has cost, what keeps it from launching, and which
budgets keep its nodes, and when windows of DisruptionPolicies open next; of an EC2NodeClass what makes it unusable; of a command what it waits for.
Of an offering, which is named TYPE/ZONE/CAPACITYTYPE, it tells which launches it failed, by which record it is marked as unavailable, and until when.
Of a CapacityBuffer it tells where its capacity was found or planned, and what took it away.
NAME of a pod or a CapacityBuffer may be NAMESPACE/NAME; without a namespace it is in that of --namespace, of the kubeconfig's context, or default.
The console, which is asked if no log is named, reaches back to the first record that there is, archived or not, once it has indexed them.`,
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := o.check(); err != nil {
				return err
			}
			if cmd.Flags().Changed("since") && since <= 0 {
				return fmt.Errorf("invalid --since %s: must be positive", since)
			}
			if len(args) == 0 {
				return o.repeat(cmd.Context(), cmd.OutOrStdout(), func(out io.Writer) error { return t.summarize(cmd.Context(), out, &o, since) })
			}
			kind, name := subjectKind(args[0]), t.qualified(args[0], args[1])
			switch {
			case kind == "":
				return fmt.Errorf("explain %q: must be one of %s", args[0], strings.Join(view.Kinds, ", "))
			case view.Subject(args[0], name) == "":
				return fmt.Errorf("explain %s %q: must be TYPE/ZONE/CAPACITYTYPE", kind, name)
			}
			name = strings.TrimPrefix(view.Subject(args[0], name), kind+"/")
			return o.repeat(cmd.Context(), cmd.OutOrStdout(), func(out io.Writer) error {
				story, err := t.story(cmd.Context(), args[0], name)
				if err != nil {
					return err
				}
				if since > 0 {
					story.Lines = slices.DeleteFunc(story.Lines, func(l audit.Line) bool { return time.Since(l.Time) > since })
				}
				return o.printStory(out, story)
			})
		},
	}
	o.registerAll(cmd.Flags())
	o.registerWatch(cmd.Flags(), t)
	screen.SpanVar(cmd.Flags(), &since, "since", 0, "of an object: only what happened in this span before now, such as 1h; without one: say in sentences what happened in it")
	return cmd
}

// story of an object, by console or log. Nothing on record and nothing to say of the present is a failure:
// the name may be misspelt.
func (t *target) story(ctx context.Context, kind, name string) (_ *view.Story, err error) {
	if t.viaConsole() {
		return t.storyByConsole(ctx, kind, name)
	}
	s, err := t.open(ctx)
	if err != nil {
		return nil, err
	}
	defer closeInto(s, &err)
	subject, asked := view.Subject(kind, name), kind
	kind, _, _ = strings.Cut(subject, "/")
	entries, err := s.entriesAbout(ctx, subject)
	if err != nil {
		return nil, err
	}
	story := &view.Story{Subject: subject, Lines: audit.WhyOf(entries, s.log.ID(), subject), Now: s.present(ctx, kind, name, entries), From: 1}
	if story.Lines == nil {
		story.Lines = []audit.Line{}
	}
	if len(story.Lines) == 0 && len(story.Now) == 0 {
		hint := ""
		if other := view.Otherwise(subject); other != "" {
			if entries, err := s.entriesAbout(ctx, other); err == nil && len(entries) > 0 {
				hint = "; " + view.Hint(other)
			}
		}
		return nil, fmt.Errorf("explain %s %s: the log has nothing about it%s", asked, name, hint)
	}
	return story, nil
}

// summarize says what happened in the span before now.
func (t *target) summarize(ctx context.Context, out io.Writer, o *output, span time.Duration) (err error) {
	answer := &api.Summary{Since: time.Now().Add(-span).UTC()}
	if t.viaConsole() {
		err = t.askConsole(ctx, func(c *remote.Client) error {
			return c.Get(ctx, "/summary", url.Values{"since": {span.String()}}, answer)
		})
	} else {
		answer.Sentences, err = t.summaryOfLog(ctx, span)
	}
	if err != nil {
		return err
	}
	if o.format == formatName {
		return errors.New("-o name: sentences have no names")
	}
	return o.write(out, answer, func(out io.Writer) error { return printEach(out, answer.Sentences) })
}

// summaryOfLog reads the log itself.
func (t *target) summaryOfLog(ctx context.Context, span time.Duration) (_ []string, err error) {
	s, err := t.open(ctx)
	if err != nil {
		return nil, err
	}
	defer closeInto(s, &err)
	past, err := s.history(ctx)
	if err != nil {
		return nil, err
	}
	now := time.Now()
	return past.Summary(now.Add(-span), now), nil
}

// history of the whole log.
func (s *session) history(ctx context.Context) (*history.History, error) {
	past := history.New(s.log.ID())
	return past, eachRecord(ctx, s.log, func(rec store.Record) error {
		e, err := audit.Decode(rec)
		if errors.Is(err, ledger.ErrUnknownKind) {
			return nil
		}
		if err == nil {
			past.Add(e)
		}
		return err
	})
}

// printStory prints it, oldest first; wide says who did what.
func (o *output) printStory(out io.Writer, story *view.Story) error {
	var names []string
	for i := range story.Lines {
		names = append(names, strconv.FormatUint(story.Lines[i].Seq, 10))
	}
	return o.list(out, story, "record", names, func(out io.Writer) error {
		if story.Cut {
			fmt.Fprintln(out, "the story has more records than are shown, and begins earlier")
		}
		for i := range story.Lines {
			l := &story.Lines[i]
			who := ""
			if o.wide() {
				who = fmt.Sprintf("%-12s", l.Service)
			}
			fmt.Fprintf(out, "%s  #%-5d %s %s%s\n", l.Time.UTC().Format("2006-01-02 15:04:05.000"), l.Seq, screen.Paint(out, stepColour(l.Step), fmt.Sprintf("%-8s", l.Step)), who, l.Text)
			for _, d := range l.Details {
				fmt.Fprintf(out, "%41s%s\n", "", d)
			}
		}
		return printEach(out, story.Now)
	})
}

func stepColour(s audit.Step) string {
	switch s {
	case audit.StepRefused:
		return screen.Red
	case audit.StepOutcome:
		return screen.Green
	case audit.StepDecided:
		return screen.Bold
	}
	return screen.Yellow
}
