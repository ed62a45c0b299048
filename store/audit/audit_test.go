package audit_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"

	"millwright/events"
	"millwright/events/membus"
	"millwright/planner"
	"millwright/planner/claim"
	"millwright/planner/disrupt"
	"millwright/planner/drain"
	"millwright/planner/drift"
	"millwright/planner/ledger"
	pt "millwright/planner/plannertest"
	"millwright/planner/provision"
	"millwright/planner/world"
	wire "millwright/proto"
	"millwright/store"
	"millwright/store/audit"
	"millwright/store/memlog"
)

func want[T comparable](t testing.TB, what string, got, want T) {
	t.Helper()
	if got != want {
		t.Errorf("%s: got %v, want %v", what, got, want)
	}
}

// site is a small Millwright: a bus, a log, and their folds as services have them.
type site struct {
	t        testing.TB
	ctx      context.Context
	bus      *membus.Bus
	stream   *membus.Stream
	log      *memlog.Log
	world    *world.World
	ledger   *ledger.Ledger
	now      time.Time
	epoch    uint64
	counter  uint64
	sequence uint64
}

func newSite(t testing.TB) *site {
	s := &site{t: t, ctx: t.Context(), bus: membus.NewBus(), world: world.New(), ledger: ledger.New(""), now: pt.Start}
	s.stream = s.bus.Connect(membus.QueueMax)
	log, err := memlog.Open(memlog.Config{Cluster: "test", LogID: pt.LogID, Clock: func() time.Time { return s.now }})
	s.check(err)
	s.log = log
	st, err := s.stream.State(s.ctx)
	s.check(err)
	s.world.SetIncarnation(st.Incarnation)
	s.follow()
	return s
}

func (s *site) check(err error) {
	s.t.Helper()
	if err != nil {
		s.t.Fatal(err)
	}
}

// follow folds the log's new records.
func (s *site) follow() {
	records, err := s.log.Read(s.ctx, s.ledger.Seq()+1, 1000)
	s.check(err)
	for _, r := range records {
		e, err := audit.Decode(r)
		s.check(err)
		s.check(s.ledger.Apply(e))
	}
}

// send publishes an observation and folds what a consumer decodes.
func (s *site) send(o events.Observation) {
	s.counter++
	s.sequence++
	o.Epoch, o.Counter, o.ObservedAt = s.epoch, s.counter, s.now
	data, err := events.Encode(o)
	s.check(err)
	s.check(s.stream.Publish(s.ctx, data))
	s.check(s.stream.Flush(s.ctx))
	decoded, err := events.Decode(data)
	s.check(err)
	s.check(events.ResolveCatalog(s.ctx, s.stream.Blobs(), &decoded, nil))
	s.world.Apply(s.sequence, decoded)
}

func (s *site) see(objects ...any) {
	for _, o := range objects {
		if ref, ok := o.(*events.CatalogRef); ok {
			stored, err := events.StoreCatalog(s.ctx, s.stream.Blobs(), ref.Catalog)
			s.check(err)
			o = stored
		}
		s.send(pt.Observe(o))
	}
}

func (s *site) gone(object any) {
	o := pt.Observe(object)
	o.Op, o.Object = events.OpDelete, nil
	s.send(o)
}

func (s *site) resync(objects ...any) {
	s.epoch, s.counter = s.epoch+1, 0
	s.send(events.Observation{Op: events.OpResyncBegin})
	s.see(objects...)
	s.send(events.Observation{Op: events.OpResyncEnd})
	s.beat(0)
}

func (s *site) beat(d time.Duration) {
	s.now = s.now.Add(d)
	s.send(events.Observation{Op: events.OpHeartbeat, Object: &events.Heartbeat{}})
}

func (s *site) snapshot() *planner.Snapshot { return planner.NewSnapshot(s.world, s.ledger, s.now) }

func (s *site) append(d store.Draft, service string) store.Record {
	s.t.Helper()
	d.Service, d.Mode, d.Time = service, string(ledger.ModeActive), s.now
	r, err := s.log.Append(s.ctx, d)
	s.check(err)
	s.follow()
	return r
}

func (s *site) decide(service string, snap *planner.Snapshot, d *planner.Decision) store.Record {
	s.t.Helper()
	if d == nil {
		s.t.Fatal("nothing was decided")
	}
	draft, err := audit.DecisionDraft(snap.Basis(), *d)
	s.check(err)
	return s.append(draft, service)
}

func (s *site) outcome(service string, kind ledger.Kind, payload any) {
	s.t.Helper()
	draft, err := audit.OutcomeDraft(audit.Outcome{Kind: kind, Payload: payload})
	s.check(err)
	s.append(draft, service)
}

func (s *site) provision() store.Record {
	s.t.Helper()
	snap := s.snapshot()
	d, _ := provision.Plan(snap)
	return s.decide(ledger.ServiceProvisioner, snap, d)
}

// live runs a claim's whole life: planned for a pod, launched, emptied, drained, terminated. It returns the
// claim's name.
func (s *site) live() string {
	s.append(store.Draft{Kind: uint16(ledger.KindOptionsSet), Payload: must(json.Marshal(&ledger.OptionsSet{Options: planner.EncodeOptions(planner.DefaultOptions())}))}, "provisioner")
	pool := pt.Pool("general")
	s.resync(append(pt.WithCatalogue(), pool, pt.Pod("web", pt.Unschedulable(), pt.Requests("cpu", "3", "memory", "4Gi")),
		pt.Pod("giant", pt.Unschedulable(), pt.Requests("cpu", "500")))...)
	planned := s.provision()
	name := ledger.ClaimName(pt.LogID, "general", planned.Seq, 0)
	uid := pt.Claim(name, "n1", "general").UID
	s.outcome("lifecycle", ledger.KindClaimCreated, &ledger.ClaimCreated{Claim: name, UID: uid})
	s.outcome("lifecycle", ledger.KindLaunchRequested, &ledger.LaunchRequested{Claim: name, UID: uid, Attempt: 1, Token: "token-1"})
	s.outcome("lifecycle", ledger.KindLaunched, &ledger.Launched{Claim: name, UID: uid, Attempt: 1, InstanceID: "i-n1", ProviderID: pt.ProviderID("n1"), InstanceType: "m5.xlarge", Zone: "us-west-2a", CapacityType: "spot", Price: 76800})
	s.see(pt.Claim(name, "n1", "general"), pt.Node("n1", pt.InPool("general")))
	s.outcome("lifecycle", ledger.KindClaimRegistered, &ledger.ClaimRegistered{Claim: name, Node: "n1"})
	s.outcome("lifecycle", ledger.KindClaimInitialized, &ledger.ClaimInitialized{Claim: name, Node: "n1"})
	web := pt.Pod("web", pt.On("n1"), pt.Requests("cpu", "3"))
	s.see(web)
	s.beat(time.Minute)
	s.gone(web)
	s.beat(time.Minute)
	snap := s.snapshot()
	d, _ := disrupt.Plan(snap)
	command := s.decide(ledger.ServiceDisruptor, snap, d)
	s.see(pt.Node("n1", pt.InPool("general"), pt.Marked(command.Seq)))
	snap = s.snapshot()
	s.decide(ledger.ServiceDisruptor, snap, disrupt.ConfirmDecision(snap, s.ledger.Command(ledger.CommandID(pt.LogID, command.Seq))))
	s.outcome("disruptor", ledger.KindCommandSucceeded, &ledger.CommandSucceeded{ID: ledger.CommandID(pt.LogID, command.Seq)})
	s.drained(name)
	s.outcome("lifecycle", ledger.KindInstanceTerminated, &ledger.InstanceTerminated{Claim: name, InstanceID: "i-n1"})
	s.outcome("lifecycle", ledger.KindClaimClosed, &ledger.ClaimClosed{Claim: name, Reason: "finalized"})
	return name
}

func (s *site) drained(claim string) {
	s.outcome("terminator", ledger.KindDrainStarted, &ledger.DrainStarted{Node: "n1", Claim: claim, Reason: "Empty"})
	s.see(pt.Pod("late", pt.On("n1")))
	snap := s.snapshot()
	tier := drain.Plan(snap, "n1").TierStarted(s.ledger.Drain("n1"))
	s.decide(ledger.ServiceTerminator, snap, &planner.Decision{Kind: ledger.KindDrainTierStarted, Payload: tier})
	s.outcome("terminator", ledger.KindNodeDrained, &ledger.NodeDrained{Node: "n1", Claim: claim, VolumesDetached: true})
	s.outcome("terminator", ledger.KindDrainEnded, &ledger.DrainEnded{Node: "n1"})
}

func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}

func (s *site) replay() audit.Report {
	s.t.Helper()
	r, err := audit.Replay(s.ctx, s.log, s.stream, audit.Range{From: 1})
	s.check(err)
	return r
}

func TestReplayOfAWholeLifeDivergesNowhere(t *testing.T) {
	s := newSite(t)
	s.live()
	r := s.replay()
	want(t, "summary", r.Summary(), "4 decisions replayed, 0 divergences")
	want(t, "how", r.Counts(), "4 planned again from their Snapshot, 0 derived from a recorded input, 0 not replayable; 3 explanations compared")
	want(t, "not replayable", fmt.Sprint(r.NotReplayable), "[]")
	want(t, "decisions", r.Decisions, 4)
	part, err := audit.Replay(s.ctx, s.log, s.stream, audit.Range{From: 5, To: 14})
	s.check(err)
	want(t, "of a range", part.Replayed() < 4 && part.Replayed() > 0, true)
}

// A service of an earlier version decides while the watcher is of a later one.
func TestDecisionsReplayAmongObjectsOfUnknownKinds(t *testing.T) {
	s := newSite(t)
	s.resync()
	s.counter++
	s.sequence++
	data, err := proto.Marshal(&wire.Observation{Epoch: s.epoch, Counter: s.counter, Kind: 200, Op: 1, Name: "a", Object: []byte("{}")})
	s.check(err)
	s.check(s.stream.Publish(s.ctx, data))
	o, err := events.Decode(data)
	if !errors.Is(err, events.ErrUnknownKind) {
		t.Fatal(err)
	}
	s.world.Apply(s.sequence, o)
	s.live()
	want(t, "summary", s.replay().Summary(), "4 decisions replayed, 0 divergences")
}

// swapped is a log in which one record's payload was changed, as if the planner had decided otherwise.
type swapped struct {
	audit.Log
	kind   ledger.Kind
	change func(*store.Record)
}

func (l swapped) Read(ctx context.Context, from uint64, limit int) ([]store.Record, error) {
	records, err := l.Log.Read(ctx, from, limit)
	for i := range records {
		if ledger.Kind(records[i].Kind) == l.kind {
			l.change(&records[i])
		}
	}
	return records, err
}

func TestReplayFindsDivergences(t *testing.T) {
	s := newSite(t)
	s.live()
	cases := map[string]struct {
		log    audit.Log
		detail string
	}{
		"a plan with another price": {swapped{s.log, ledger.KindProvisioningPlanned, func(r *store.Record) {
			r.Payload = []byte(strings.Replace(string(r.Payload), `"price":`, `"price":9`, 1))
		}}, "claims[0].cheapest.price: recorded"},
		"a command with another reason": {swapped{s.log, ledger.KindCommandStarted, func(r *store.Record) {
			r.Payload = []byte(strings.Replace(string(r.Payload), "Empty", "Drifted", 1))
		}}, `reason: recorded "Drifted", planned "Empty"`},
		"a tier with no pod": {swapped{s.log, ledger.KindDrainTierStarted, func(r *store.Record) {
			r.Payload = []byte(`{"node":"n1","tier":1}`)
		}}, "evict: recorded null"},
		"a plan with another explanation": {swapped{s.log, ledger.KindProvisioningPlanned, func(r *store.Record) {
			r.Explanation = []byte(`{"claims":[]}`)
		}}, "explanation: "},
		"a rollback that was none": {swapped{s.log, ledger.KindCommandConfirmed, func(r *store.Record) {
			r.Kind = uint16(ledger.KindCommandRolledBack)
		}}, "decides CommandConfirmed now"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			r, err := audit.Replay(s.ctx, tc.log, s.stream, audit.Range{})
			s.check(err)
			if len(r.Divergences) == 0 || !strings.HasPrefix(r.Divergences[0].Detail, tc.detail) {
				t.Errorf("divergences: %+v", r.Divergences)
			}
		})
	}
}

func TestReplayListsWhatItCannotReplay(t *testing.T) {
	s := newSite(t)
	s.live()
	none, err := audit.Replay(s.ctx, s.log, nil, audit.Range{})
	s.check(err)
	want(t, "without a stream", none.Replayed(), 0)
	want(t, "reason", none.NotReplayable[0].Reason, "no observation stream at hand")
	want(t, "in one span", len(none.NotReplayable), 1)
	want(t, "count", none.NotReplayable[0].Count, 4)

	version := swapped{s.log, ledger.KindCommandStarted, func(r *store.Record) { r.PlannerVersion = 999 }}
	r, err := audit.Replay(s.ctx, version, s.stream, audit.Range{})
	s.check(err)
	want(t, "another planner's decision", r.NotReplayable[0].Reason, fmt.Sprintf("planned by version 999, this is %d", planner.Version))
	want(t, "the rest", r.Replayed(), 3)

	other := swapped{s.log, ledger.KindCommandStarted, func(r *store.Record) { r.Position.Incarnation = "lost" }}
	r, err = audit.Replay(s.ctx, other, s.stream, audit.Range{})
	s.check(err)
	want(t, "another stream's decision", r.NotReplayable[0].Reason, "stream lost is not at hand")

	digest := swapped{s.log, ledger.KindCommandStarted, func(r *store.Record) { r.Position.Digest++ }}
	r, err = audit.Replay(s.ctx, digest, s.stream, audit.Range{})
	s.check(err)
	want(t, "another stream's messages", r.NotReplayable[0].Reason, "the stream's messages up to the position are not those that were folded")
}

func TestReplayFromACheckpoint(t *testing.T) {
	s := newSite(t)
	s.resync(pt.Pool("general"))
	checkpoint, err := s.world.Checkpoint()
	s.check(err)
	at := s.world.Position()
	s.live()
	s.bus.Discard(at.Sequence + 1)
	r := s.replay()
	want(t, "without the checkpoint", r.Replayed(), 0)
	want(t, "reason", r.NotReplayable[0].Reason, fmt.Sprintf("the stream retains messages from %d on and no checkpoint reaches them", at.Sequence+1))
	s.check(s.stream.Blobs().Put(s.ctx, events.CheckpointName(at.Incarnation, at.Sequence), checkpoint))
	want(t, "with the checkpoint", s.replay().Summary(), "4 decisions replayed, 0 divergences")
}

func TestDoomedClaimsReplayFromTheirOwnInput(t *testing.T) {
	s := newSite(t)
	in := claim.Input{
		Name: "c", Now: pt.Start.Add(48 * time.Hour), Ledger: &claim.LedgerFacts{State: ledger.ClaimLaunched, UID: "u", InstanceID: "i-1"},
		Object: &claim.ObjectFacts{UID: "u", Created: pt.Start, Ours: true, Finalizer: true, ProviderID: "aws:///z/i-1", ExpireAfter: ptr(24 * time.Hour)},
	}
	action := claim.Next(in)
	want(t, "move", action.Move, claim.Doom)
	doomed := &ledger.ClaimDoomed{Claim: "c", UID: "u", Reason: action.Reason, Message: action.Message, Input: must(json.Marshal(in))}
	s.outcome("lifecycle", ledger.KindClaimDoomed, doomed)
	r, err := audit.Replay(s.ctx, s.log, nil, audit.Range{})
	s.check(err)
	want(t, "summary", r.Summary(), "1 decisions replayed, 0 divergences")
	want(t, "how", r.Counts(), "0 planned again from their Snapshot, 1 derived from a recorded input, 0 not replayable; 0 explanations compared")
	for explanation, differs := range map[any]int{claim.Explain(in, action): 0, claim.Explanation{Reason: action.Reason}: 1} {
		d := must(audit.DecisionDraft(planner.Basis{LedgerSeq: 1, Now: in.Now}, planner.Decision{Kind: ledger.KindClaimDoomed, Payload: doomed, Explanation: explanation}))
		log := swapped{s.log, ledger.KindClaimDoomed, func(r *store.Record) { r.Explanation = d.Explanation }}
		again, err := audit.Replay(s.ctx, log, nil, audit.Range{})
		s.check(err)
		want(t, "explanations that differ", len(again.Divergences), differs)
		want(t, "compared", again.Explained, 1)
	}
	other := *doomed
	other.Reason = "unhealthy"
	s.outcome("lifecycle", ledger.KindClaimDoomed, &other)
	other.Input = nil
	s.outcome("lifecycle", ledger.KindClaimDoomed, &other)
	r, err = audit.Replay(s.ctx, s.log, nil, audit.Range{})
	s.check(err)
	want(t, "summary", r.Summary(), "2 decisions replayed, 1 divergences")
	want(t, "reason", r.NotReplayable[0].Reason, "the record carries no input")
}

func TestDriftReplaysFromItsOwnFacts(t *testing.T) {
	s := newSite(t)
	name := s.live()
	in := drift.Input{
		Now:    pt.Start.Add(time.Hour),
		Claims: []drift.Claim{{Name: name, UID: "u", NodePool: "general", NodeClass: "default", Launched: true, CreatedAt: pt.Start, Placement: &drift.Placement{SubnetID: "subnet-a"}}},
		Pools:  []drift.Pool{{Name: "general"}}, Classes: []drift.Class{{Name: "default", Current: true, SubnetIDs: []string{"subnet-b"}}},
	}
	judged, why, err := drift.Record(in)
	s.check(err)
	d := planner.Decision{Kind: ledger.KindDriftJudged, Payload: judged, Explanation: why, Subjects: []string{"claim/" + name}}
	s.append(must(audit.DecisionDraft(planner.Basis{LedgerSeq: 1, Now: in.Now}, d)), "lifecycle")
	r := s.replay()
	want(t, "summary", r.Summary(), "5 decisions replayed, 0 divergences")
	want(t, "derived", r.Derived, 1)
	story := text(audit.Why(s.entries(), "node/n1"))
	for _, part := range []string{"NodeClaim " + name + " has drifted: SubnetDrift", "differs: subnet subnet-a, those of EC2NodeClass default are [subnet-b]"} {
		want(t, part, strings.Contains(story, part), true)
	}
	for what, change := range map[string]func(*ledger.DriftJudged){
		"another verdict": func(p *ledger.DriftJudged) { p.Claims[0].Reason = drift.ReasonImage },
		"other facts": func(p *ledger.DriftJudged) {
			p.Facts = []byte(strings.ReplaceAll(string(p.Facts), "subnet-b", "subnet-a"))
		},
	} {
		log := swapped{s.log, ledger.KindDriftJudged, func(rec *store.Record) {
			var p ledger.DriftJudged
			s.check(json.Unmarshal(rec.Payload, &p))
			change(&p)
			rec.Payload = must(json.Marshal(p))
		}}
		r, err := audit.Replay(s.ctx, log, nil, audit.Range{})
		s.check(err)
		want(t, what, len(r.Divergences), 1)
	}
}

func ptr[T any](v T) *T { return &v }

func TestDecode(t *testing.T) {
	draft := must(audit.DecisionDraft(planner.Basis{Position: events.Position{Incarnation: "s", Sequence: 3, Digest: 1 << 63}, LedgerSeq: 2, Now: pt.Start, OptionsSeq: 1},
		planner.Decision{Kind: ledger.KindCommandConfirmed, Payload: &ledger.CommandConfirmed{ID: "x"}, Explanation: map[string]int{"a": 1}, Subjects: []string{"node/a"},
			Expects: []planner.Expectation{{Aggregate: "pool/a", Seq: 4}}, Advances: []string{"pool/a"}, Causation: 2}))
	want(t, "expects", draft.Expects["pool/a"], 4)
	e, err := audit.Decode(store.Record{Seq: 9, Draft: draft})
	want(t, "error", err, nil)
	want(t, "position", e.Position.Digest, 1<<63)
	want(t, "payload", e.Payload.(*ledger.CommandConfirmed).ID, "x")
	want(t, "explanation", string(e.Explanation), `{"a":1}`)
	want(t, "decision", audit.IsDecision(e), true)

	_, err = audit.Decode(store.Record{Seq: 9, Draft: store.Draft{Kind: uint16(ledger.KindLaunched), Payload: []byte("{")}})
	want(t, "bad JSON", errors.Is(err, audit.ErrPayload) && strings.Contains(err.Error(), "record 9"), true)
	_, err = audit.Decode(store.Record{Seq: 9, Draft: store.Draft{Kind: 999}})
	want(t, "unknown kind", errors.Is(err, ledger.ErrUnknownKind) && strings.Contains(err.Error(), "record 9"), true)
	e, err = audit.Decode(store.Record{Seq: 9, Draft: store.Draft{Kind: 999, Ignorable: true, Payload: []byte("{")}})
	want(t, "ignorable unknown kind", err == nil && e.Payload == nil && e.Ignorable, true)
	_, x, err := audit.Encode(&ledger.CommandConfirmed{}, strings.Repeat("x", 70<<10))
	want(t, "a long explanation is left out", err == nil && string(x) == `{"omittedBytes":71682}`, true)
}

func FuzzDecodeNeverPanics(f *testing.F) {
	f.Add(uint16(10), []byte(`{"claims":[{}]}`), false)
	f.Add(uint16(31), []byte(`{"candidates":null}`), true)
	f.Fuzz(func(t *testing.T, kind uint16, payload []byte, ignorable bool) {
		e, err := audit.Decode(store.Record{Seq: 1, Draft: store.Draft{Kind: kind, Payload: payload, Ignorable: ignorable}})
		if err != nil {
			return
		}
		audit.Describe(e, pt.LogID)
		audit.Mentions(e, pt.LogID)
		if err := ledger.New(pt.LogID).Apply(e); err != nil {
			t.Fatalf("decoded but not folded: %v", err)
		}
	})
}

func (s *site) entries() []ledger.Entry {
	records, err := s.log.Read(s.ctx, 1, 1000)
	s.check(err)
	var list []ledger.Entry
	for _, r := range records {
		list = append(list, must(audit.Decode(r)))
	}
	return list
}

func text(lines []audit.Line) string {
	var b strings.Builder
	for _, l := range lines {
		fmt.Fprintf(&b, "%d %s %s\n", l.Seq, l.Step, l.Text)
		for _, d := range l.Details {
			fmt.Fprintf(&b, "    %s\n", d)
		}
	}
	return b.String()
}

func TestWhyTellsTheWholeChain(t *testing.T) {
	s := newSite(t)
	name := s.live()
	cases := map[string]struct{ parts, absent []string }{
		"node/n1": {parts: []string{
			"NodeClaim " + name + " of NodePool general planned for pod default/web", "chosen: ", "rejected as dearer: ", "$0.", "launch of NodeClaim " + name + " requested",
			"launched as i-n1", "registered as node n1", "ready for pods", "(Empty, emptiness) takes 1 node(s): n1, saving $0.1920/h", "budget of NodePool general for Empty",
			"confirmed", "succeeded", "drain of node n1 started", "tier 1 of node n1", "is drained", "is terminated", "closed: finalized", "seen: world at message",
		}},
		"claim/" + name: {parts: []string{"planned for pod default/web", "registered as node n1", "is drained"}},
		"instance/i-n1": {parts: []string{"planned for pod default/web", "is terminated"}},
		"pod/default/web": {
			parts: []string{"planned for pod default/web", "launched as i-n1", "ready for pods"}, absent: []string{"default/giant", "Empty, emptiness"},
		},
		"pod/default/giant": {parts: []string{"refused pod default/giant cannot be placed", "rejected NodePool general"}, absent: []string{"default/web", "launch"}},
		"node/other":        {absent: []string{"e"}},
	}
	for subject, tc := range cases {
		t.Run(strings.ReplaceAll(subject, "/", " "), func(t *testing.T) {
			got := text(audit.Why(s.entries(), subject))
			for _, p := range tc.parts {
				if !strings.Contains(got, p) {
					t.Errorf("missing %q in\n%s", p, got)
				}
			}
			for _, p := range tc.absent {
				if strings.Contains(got, p) {
					t.Errorf("unexpected %q in\n%s", p, got)
				}
			}
		})
	}
}

// The story of a pod that a command moved says from where, to where, and what the command saves.
func TestWhyAPodMoved(t *testing.T) {
	pod := ledger.PodRef{UID: "u", Namespace: "default", Name: "web"}
	taken := []ledger.Candidate{{Node: "n1", InstanceType: "m5.large", Price: 96000, Pods: []ledger.PodRef{pod}}}
	for name, tc := range map[string]struct {
		command ledger.CommandStarted
		want    string
	}{
		"to a node": {ledger.CommandStarted{Placements: []ledger.Placement{{Node: "n2", Pods: []ledger.PodRef{pod}}}}, "from node n1 (m5.large) to node n2"},
		"to a replacement": {ledger.CommandStarted{Replacements: []ledger.PlannedClaim{{NodePool: "p", Pods: []ledger.PodRef{pod},
			Cheapest: ledger.OfferingPrice{InstanceType: "c5.large", MicroUSDPerHour: 85000}}}, PriceAfter: 85000},
			"from node n1 (m5.large) to its replacement " + ledger.ClaimName("log", "p", 2, 0) + " (c5.large, $0.0850/h)"},
	} {
		t.Run(name, func(t *testing.T) {
			tc.command.Candidates, tc.command.Reason, tc.command.Evictions = taken, "Underutilized", 1
			got := text(audit.Why([]ledger.Entry{{Seq: 1, Kind: ledger.KindGenesis, Payload: &ledger.Genesis{LogID: "log"}},
				{Seq: 2, Kind: ledger.KindCommandMovesStarted, Payload: &tc.command}}, "pod/default/web"))
			if !strings.Contains(got, "pod default/web moves "+tc.want) || !strings.Contains(got, "saving $0.") {
				t.Errorf("want %q in\n%s", tc.want, got)
			}
		})
	}
}

// Why a further node is bought for a pod: the one before does not take it. Its node's story says so too.
func TestWhyANodeDoesNotTakeItsPods(t *testing.T) {
	pod, other := ledger.PodRef{UID: "u", Namespace: "default", Name: "web"}, ledger.PodRef{UID: "o", Namespace: "default", Name: "other"}
	list := []ledger.Entry{{Seq: 1, Kind: ledger.KindGenesis, Payload: &ledger.Genesis{LogID: "log"}},
		{Seq: 2, Kind: ledger.KindProvisioningPlanned, Payload: &ledger.ProvisioningPlanned{Placements: []ledger.Placement{{Node: "n1", Pods: []ledger.PodRef{pod}}}}},
		{Seq: 3, Kind: ledger.KindProvisioningPlanned, Payload: &ledger.ProvisioningPlanned{
			Excluded: []ledger.Exclusion{{Node: "n1", Pods: []ledger.PodRef{pod}}, {Node: "n2", Pods: []ledger.PodRef{other}}},
			Refused:  []ledger.Refused{{Pods: []ledger.PodRef{pod, other}, Reasons: []ledger.Refusal{{Message: "no"}}}}}}}
	want := "node n1 does not count for pod default/web in the next 5m0s: kube-scheduler puts none there"
	for _, subject := range []string{"pod/default/web", "node/n1"} {
		if got := text(audit.Why(list, subject)); !strings.Contains(got, want) || strings.Contains(got, "n2") {
			t.Errorf("%s:\n%s", subject, got)
		}
	}
}

func TestEveryKindIsDescribed(t *testing.T) {
	for _, k := range ledger.Kinds() {
		got := audit.Describe(ledger.Entry{Seq: 2, Kind: k, Payload: ledger.NewPayload(k)}, pt.LogID)
		if got == k.String() {
			t.Errorf("%s has no description", k)
		}
	}
	want(t, "unknown", audit.Describe(ledger.Entry{Kind: 77}, ""), "Kind(77): a record this version does not know")
	want(t, "price", audit.Price(96049), "$0.0960/h")
}

// decoded is a stream that says what its messages are.
type decoded struct {
	audit.Stream
	say func(events.Observation)
}

func (d decoded) Decoded(m events.Message) events.Observation {
	o, err := events.Decode(m.Data)
	if err == nil {
		err = events.ResolveCatalog(context.Background(), d.Blobs(), &o, nil)
	}
	if err != nil {
		panic(err)
	}
	d.say(o)
	return o
}

func TestReplayFoldsWhatIsDecodedAlready(t *testing.T) {
	s := newSite(t)
	s.live()
	for want, say := range map[string]func(events.Observation){
		"4 decisions replayed, 0 divergences": func(events.Observation) {},
		"4 decisions replayed, 2 divergences": func(o events.Observation) {
			if p, ok := o.Object.(*events.Prices); ok {
				for i := range p.Entries {
					p.Entries[i].MicroUSDPerHour *= 2
				}
			}
		},
	} {
		r, err := audit.Replay(s.ctx, s.log, decoded{s.stream, say}, audit.Range{From: 1})
		s.check(err)
		if got := r.Summary(); got != want {
			t.Errorf("%s, want %s", got, want)
		}
	}
}
