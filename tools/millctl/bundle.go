package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"millwright/planner/ledger"
	"millwright/services/console/view"
	"millwright/services/version"
	"millwright/store"
	"millwright/store/audit"
	"millwright/store/audit/recording"
	"millwright/tools/millctl/remote"
	"millwright/tools/millctl/renamed"
	"millwright/tools/millctl/screen"
)

// bundler is the command bundle.
type bundler struct {
	target         *target
	since          time.Duration
	object, output string
	// why it is taken, for the record that the console makes.
	why   string
	names renamed.Flags
}

func bundleCommand(t *target) *cobra.Command {
	b := &bundler{target: t}
	cmd := &cobra.Command{
		Use: "bundle --since SPAN | --object KIND/NAME -o FILE", Short: "Write what replaying some decisions takes to one file", Args: cobra.NoArgs,
		Long: `Bundle writes the records of a span, or of the story of an object, to one file, with all that planning them again takes: checkpoints, the
records since, observations, catalogues. millctl replay --bundle FILE replays it anywhere, without a cluster and a network. It replays what
it has written before it says that it is done.

From a kubeconfig alone the console sends it, to who may get bundles.millwright.sh, and notes in the log who took it; at most 1 GiB, within 15
minutes.

The file holds what the log and the stream hold: names, labels, requests and prices, but never environment, arguments or Secrets of pods.

With --pseudonymise names, UIDs, ids, labels, annotations and addresses are replaced by others, each by the same one everywhere, in their order,
for planners break ties by name: what is decided stays what it was. Sizes, times, prices, zones, instance types and structure stay too, so that
who knows the cluster may know it again. Such a file proves nothing of the log's hashes, and cannot be made from one that was made so.
--pseudonyms-file writes the table of names and pseudonyms, to be kept.`,
		RunE: func(cmd *cobra.Command, _ []string) error { return b.run(cmd.Context(), cmd.OutOrStdout()) },
	}
	screen.SpanVar(cmd.Flags(), &b.since, "since", 0, "only records younger than this, such as 2h")
	cmd.Flags().StringVar(&b.object, "object", "", "only from the first to the last record of the story of this object, such as node/NAME or pod/NAMESPACE/NAME")
	cmd.Flags().StringVar(&b.why, "reason", "to look at it", "why it is taken, for the record that the console makes of it")
	b.names.Register(cmd)
	cmd.Flags().StringVarP(&b.output, "output", "o", "", "file to write; it must not exist")
	return cmd
}

func (b *bundler) run(ctx context.Context, out io.Writer) (err error) {
	switch {
	case b.output == "":
		return errors.New("missing -o FILE")
	case b.since < 0 || b.since == 0 && b.object == "":
		return errors.New("missing --since SPAN or --object KIND/NAME")
	}
	if err := b.names.Check(); err != nil {
		return err
	}
	if b.target.viaConsole() {
		return b.byConsole(ctx, out)
	}
	s, err := b.target.open(ctx)
	if err != nil {
		return err
	}
	defer closeInto(s, &err)
	stream, err := s.stream(ctx)
	if err != nil {
		return err
	}
	request := recording.BundleRequest{Cluster: b.target.cluster, LogID: s.log.ID(), Program: "millctl " + version.Version, About: b.about(), Now: time.Now()}
	if request.From, request.To, err = b.find(ctx, s); err != nil {
		return err
	}
	err = b.names.Write(ctx, b.output, func(w io.Writer) error {
		_, err := recording.WriteBundle(ctx, w, s.log, stream, request)
		return err
	})
	if err != nil {
		return err
	}
	return b.check(ctx, out)
}

// byConsole has the console write the bundle.
func (b *bundler) byConsole(ctx context.Context, out io.Writer) error {
	q := view.BundleRequest{Object: b.object, Reason: b.why}
	if b.since > 0 {
		q.Since = b.since.String()
	}
	if kind, name, named := strings.Cut(b.object, "/"); named {
		q.Object = kind + "/" + b.target.qualified(kind, name)
	}
	err := b.target.askConsole(ctx, func(c *remote.Client) error {
		return b.names.Write(ctx, b.output, func(w io.Writer) error { return c.Bundle(ctx, q, w) })
	})
	if err != nil {
		return err
	}
	return b.check(ctx, out)
}

// check says what was written, and replays it.
func (b *bundler) check(ctx context.Context, out io.Writer) error {
	written, err := recording.OpenBundle(b.output)
	if err != nil {
		return err
	}
	m := &written.Manifest
	defer func() { _ = written.Close() }() // it was only read
	fmt.Fprintf(out, "%s: records %d to %d, with records from %d and messages %d to %d\n", b.output, m.From, m.To, m.First, m.Stream.First, m.Stream.Last)
	for _, text := range m.Missing {
		fmt.Fprintf(out, "missing: %s\n", text)
	}
	return (&replayer{bundle: b.output}).replayBundle(ctx, out)
}

func (b *bundler) about() string {
	var parts []string
	if b.object != "" {
		parts = append(parts, b.object)
	}
	if b.since > 0 {
		parts = append(parts, "since "+b.since.String())
	}
	return strings.Join(parts, ", ")
}

// find returns the first and the last record of the span, or of the object's story in it.
func (b *bundler) find(ctx context.Context, s *session) (from, to uint64, err error) {
	subject := ""
	if b.object != "" {
		kind, name, _ := strings.Cut(b.object, "/")
		if kind = subjectKind(kind); kind == "" || name == "" {
			return 0, 0, fmt.Errorf("--object %q: must be KIND/NAME, such as node/NAME or pod/NAMESPACE/NAME", b.object)
		}
		subject = kind + "/" + b.target.qualified(kind, name)
	}
	after := time.Time{}
	if b.since > 0 {
		after = time.Now().Add(-b.since)
	}
	var entries []ledger.Entry
	err = eachRecord(ctx, s.log, func(rec store.Record) error {
		if subject == "" {
			if to = rec.Seq; from == 0 && !rec.Time.Before(after) {
				from = rec.Seq
			}
			return nil
		}
		e, err := audit.Decode(rec)
		if errors.Is(err, ledger.ErrUnknownKind) {
			return nil
		}
		entries = append(entries, e)
		return err
	})
	if err != nil {
		return 0, 0, err
	}
	if subject != "" {
		lines := slices.DeleteFunc(audit.WhyOf(entries, s.log.ID(), subject), func(l audit.Line) bool { return l.Time.Before(after) })
		if len(lines) > 0 {
			from, to = lines[0].Seq, lines[len(lines)-1].Seq
		}
	}
	if from == 0 {
		return 0, 0, fmt.Errorf("bundle %s: the log has nothing about it", b.about())
	}
	return from, to, nil
}
