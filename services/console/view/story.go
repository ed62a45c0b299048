package view

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"millwright/planner"
	"millwright/planner/ledger"
	"millwright/services/console/index"
	"millwright/store"
	"millwright/store/audit"
	"millwright/store/audit/overview"
	"millwright/store/audit/subjects"
)

const (
	// storyRecordsMax bounds the records that a story is put together from.
	storyRecordsMax = 1000
	storyTimeout    = 20 * time.Second
	// relatedMax bounds the records that are shown beside one.
	relatedMax = 50
	// contentMax bounds payload and explanation of a record as they are shown.
	contentMax = 256 << 10
)

// Story of an object.
type Story struct {
	// Subject as records name it, such as claim/NAME for a NodeClaim.
	Subject string       `json:"subject"`
	Lines   []audit.Line `json:"lines"`
	// Now says what keeps a node, or which pods run in the place of one that was moved.
	Now []string `json:"now,omitempty"`
	// From is the first record that was looked at; what came before is not in the story. Cut: the story has
	// more records than are shown, and begins later.
	From uint64 `json:"from"`
	Cut  bool   `json:"cut,omitempty"`
}

// kinds turns the words of users into those of records.
var kinds = map[string]string{
	"pod": "pod", "pods": "pod", "po": "pod", "node": "node", "nodes": "node", "no": "node", "nodeclaim": "claim", "nodeclaims": "claim", "claim": "claim",
	"nodepool": "pool", "nodepools": "pool", "pool": "pool", "ec2nodeclass": "nodeclass", "ec2nodeclasses": "nodeclass", "nodeclass": "nodeclass", "ec2nc": "nodeclass", "ec2ncs": "nodeclass", "command": "command", "instance": "instance",
	"capacitybuffer": "capacitybuffer", "capacitybuffers": "capacitybuffer", "cb": "capacitybuffer", "offering": "offering",
}

// Kinds that a story can be about, as users write them.
var Kinds = []string{"pod", "node", "nodeclaim", "nodepool", "ec2nodeclass", "command", "instance", "capacitybuffer", "offering"}

// Subject of an object of a kind; "" if there is no such kind. Without a namespace it is in default.
func Subject(kind, name string) string {
	k := kinds[strings.ToLower(kind)]
	if k == "" || name == "" {
		return ""
	}
	if _, ok := audit.Offering(name); k == "offering" && !ok {
		return ""
	}
	if k == "instance" { // or its provider id, as Nodes and NodeClaims have it
		name = name[strings.LastIndexByte(name, '/')+1:]
	}
	if (k == "pod" || k == "capacitybuffer") && !strings.Contains(name, "/") {
		name = "default/" + name
	}
	return k + "/" + name
}

// Why tells the story of an object. It returns ErrNotFound if neither the log nor the cluster has it.
func (v *View) Why(ctx context.Context, subject string) (*Story, error) {
	ctx, cancel := context.WithTimeout(ctx, storyTimeout)
	defer cancel()
	select {
	case v.asking <- struct{}{}:
		defer func() { <-v.asking }()
	case <-ctx.Done():
		return nil, ErrBusy
	}
	entries, cut, err := v.about(ctx, subject)
	if err != nil {
		return nil, err
	}
	newest, last, _ := v.cfg.Index.Extent()
	first, _ := v.Extent()
	x := &Story{Subject: subject, Lines: audit.WhyOf(entries, v.cfg.Log.ID(), subject), From: first, Cut: cut,
		Now: v.present(ctx, subject, entries)}
	switch {
	case len(x.Lines) == 0 && len(x.Now) == 0 && last < newest:
		return nil, fmt.Errorf("%w: the log is being read", ErrNotReady)
	case len(x.Lines) == 0 && len(x.Now) == 0:
		return nil, fmt.Errorf("%w: the log has nothing about %s since record %d%s", ErrNotFound, subject, first, v.otherwise(ctx, subject))
	}
	if x.Lines == nil {
		x.Lines = []audit.Line{}
	}
	return x, nil
}

// otherwise says what else of that name there is, where users mix up nodes and NodeClaims; "" if nothing.
func (v *View) otherwise(ctx context.Context, subject string) string {
	other := Otherwise(subject)
	if other == "" {
		return ""
	}
	entries, _, err := v.about(ctx, other)
	if err != nil || len(entries) == 0 {
		return ""
	}
	return "; " + Hint(other)
}

// Otherwise is the subject that users may mean instead: the NodeClaim of a node's name, and the other way
// round; "" if there is none.
func Otherwise(subject string) string {
	switch kind, name, _ := strings.Cut(subject, "/"); kind {
	case "node":
		return "claim/" + name
	case "claim":
		return "node/" + name
	}
	return ""
}

// Hint tells users to ask for another subject.
func Hint(other string) string {
	if name, ok := strings.CutPrefix(other, "claim/"); ok {
		return "there is a NodeClaim of that name: ask for nodeclaim " + name
	}
	return "there is a node of that name: ask for " + strings.Replace(other, "/", " ", 1)
}

// about reads the records of a story, in order, in the whole log as far as it is indexed.
func (v *View) about(ctx context.Context, subject string) (entries []ledger.Entry, cut bool, err error) {
	entries, cut, err = subjects.Entries(ctx, v.cfg.Log, subject, func(list []string) ([]uint64, bool) {
		seqs, cut := v.cfg.Index.About(list, storyRecordsMax)
		first, _, _ := v.cfg.Index.Extent()
		if cut || !v.reachesBack(first) {
			return seqs, cut
		}
		older, more := v.cfg.Past.Find([][]string{list}, first, storyRecordsMax-len(seqs))
		return append(older, seqs...), more
	})
	if err != nil {
		return nil, false, fmt.Errorf("read the story: %w", err)
	}
	return entries, cut, nil
}

// present is what it has cost, and what the cluster says of it now.
func (v *View) present(ctx context.Context, subject string, entries []ledger.Entry) (lines []string) {
	kind, name, _ := strings.Cut(subject, "/")
	lines = overview.CostOf(entries, v.cfg.Log.ID(), subject, v.cfg.Now())
	if h := v.history(); kind == "pool" && h != nil {
		lines = h.Cost(name, v.cfg.Now())
	}
	if kind == "offering" {
		_, l, err := v.versions()
		if err != nil {
			return []string{fmt.Sprintf("now: not known: %v", err)}
		}
		return overview.OfferingNow(l, name, v.cfg.Now())
	}
	if kind == "capacitybuffer" {
		return lines
	}
	s, err := v.snapshot()
	switch {
	case err != nil && kind != "node" && kind != "pod" && len(entries) == 0:
		return lines // there is no such thing as far as is known
	case err != nil:
		return append(lines, fmt.Sprintf("now: not known: %v", err))
	case kind == "pod":
		lines = append(lines, overview.PodCost(s, name)...)
		return append(append(lines, overview.Successors(s.World, name, entries)...), v.waits.get(s, name, v.cfg.Now)...)
	}
	lines = append(lines, overview.ThingNow(planner.SnapshotAt(s.World, s.Ledger, s.World.AsOf()), kind, name)...)
	if kind == "pool" {
		lines = append(lines, v.refusedBy(ctx, name)...)
	}
	return lines
}

// refusedMax bounds the pods whose refusals by a NodePool are looked at, and its reasons that are told.
const refusedMax = 100

// refusedBy says which pods that wait a NodePool cannot have nodes for, and why.
func (v *View) refusedBy(ctx context.Context, pool string) (lines []string) {
	pods, _, _, err := v.Pending(ctx, "", refusedMax)
	if err != nil {
		return []string{fmt.Sprintf("  pods that it was refused for: not known: %v", err)}
	}
	by := map[string][]string{}
	for i := range pods {
		for _, r := range pods[i].Reasons {
			if r.NodePool == pool {
				by[r.Message] = append(by[r.Message], pods[i].Namespace+"/"+pods[i].Name)
			}
		}
	}
	for _, message := range slices.Sorted(maps.Keys(by)) {
		more := ""
		if n := len(by[message]) - 1; n > 0 {
			more = fmt.Sprintf(" and %d more", n)
		}
		lines = append(lines, fmt.Sprintf("  no node of it for pod %s%s: %s", by[message][0], more, message))
	}
	return lines[:min(len(lines), refusedMax/10)]
}

// Decision is a record with all that it says.
type Decision struct {
	index.Row
	Step    audit.Step `json:"step"`
	Details []string   `json:"details"`
	// PlannerVersion and what follows name what a decision was taken on; empty for outcomes.
	PlannerVersion uint32    `json:"plannerVersion,omitempty"`
	Stream         string    `json:"stream,omitempty"`
	StreamSequence uint64    `json:"streamSequence,omitempty"`
	LedgerSeq      uint64    `json:"ledgerSeq,omitempty"`
	Now            time.Time `json:"now,omitzero"`
	Causation      uint64    `json:"causation,omitempty"`
	// Payload and Explanation are as recorded; a text instead of JSON says why one is left out.
	Payload     json.RawMessage `json:"payload,omitempty"`
	Explanation json.RawMessage `json:"explanation,omitempty"`
	Hash        string          `json:"hash"`
	// After are later records about the commands and claims of this one: what came of it, oldest first.
	After []index.Row `json:"after"`
}

// Decision returns a record by its sequence.
func (v *View) Decision(ctx context.Context, seq uint64) (*Decision, error) {
	rec, err := v.record(ctx, seq)
	switch {
	case errors.Is(err, store.ErrCompacted):
		return nil, fmt.Errorf("%w: record %d is archived, and the archive is not at hand", ErrNotFound, seq)
	case errors.Is(err, ErrNotFound):
		return nil, fmt.Errorf("%w: the log has no record %d", ErrNotFound, seq)
	case err != nil:
		return nil, fmt.Errorf("read record %d: %w", seq, err)
	}
	e, err := audit.Decode(rec)
	if err != nil {
		e = ledger.Entry{Seq: rec.Seq, Time: rec.Time, Service: rec.Service, Mode: ledger.Mode(rec.Mode), Kind: ledger.Kind(rec.Kind), Subjects: rec.Subjects}
	}
	line := audit.Account(e, v.cfg.Log.ID())
	x := &Decision{
		Row: index.Row{Seq: e.Seq, Time: e.Time.UTC(), Service: e.Service, Mode: e.Mode, Kind: e.Kind.String(), Decision: audit.IsDecision(e),
			Text: line.Text, Subjects: audit.Mentions(e, v.cfg.Log.ID())},
		Step: line.Step, Details: line.Details, PlannerVersion: e.PlannerVersion, Stream: e.Position.Incarnation, StreamSequence: e.Position.Sequence,
		LedgerSeq: e.LedgerSeq, Now: e.Now, Causation: e.Causation, Payload: shown(rec.Payload), Explanation: shown(rec.Explanation),
		Hash: fmt.Sprintf("%x", rec.Hash), After: []index.Row{},
	}
	if x.Details == nil {
		x.Details = []string{}
	}
	if x.Subjects == nil {
		x.Subjects = []string{}
	}
	return x, v.addOutcome(ctx, x)
}

// addOutcome adds what came of a decision: the records about its own command and claims.
func (v *View) addOutcome(ctx context.Context, x *Decision) error {
	var own []string
	for _, s := range x.Subjects {
		if strings.HasPrefix(s, "command/") || strings.HasPrefix(s, "claim/") {
			own = append(own, s)
		}
	}
	seen := map[uint64]bool{}
	for _, s := range own[:min(len(own), relatedMax)] {
		rows, _, err := v.Rows(ctx, index.Filter{Object: s}, 0, relatedMax)
		if err != nil {
			return err
		}
		for _, r := range rows {
			if r.Seq > x.Seq && !seen[r.Seq] {
				seen[r.Seq] = true
				x.After = append(x.After, r)
			}
		}
	}
	slices.SortFunc(x.After, func(a, b index.Row) int { return int(int64(a.Seq) - int64(b.Seq)) })
	x.After = x.After[:min(len(x.After), relatedMax)]
	return nil
}

// shown is content that is JSON and not too long, or a text that says why not.
func shown(b []byte) json.RawMessage {
	switch {
	case len(b) == 0:
		return nil
	case len(b) > contentMax:
		return json.RawMessage(fmt.Sprintf(`"%d bytes are left out: millctl log -o json has them"`, len(b)))
	case !json.Valid(b):
		return json.RawMessage(fmt.Sprintf(`"%d bytes that are no JSON are left out"`, len(b)))
	}
	return b
}
