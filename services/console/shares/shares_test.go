package shares

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/rs/zerolog"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"millwright/planner/ledger"
	"millwright/planner/plannertest"
	"millwright/planner/world"
	"millwright/services/console/history"
	"millwright/store"
	"millwright/store/audit"
	"millwright/store/memlog"
)

var began = time.Date(2026, 3, 2, 10, 0, 0, 0, time.UTC)

// rig has a node a with 4 CPUs and 16 GiB, whose instance is a spot instance for 0.0384 USD in place of
// 0.384, and pods of two namespaces there.
type rig struct {
	*testing.T
	*Observer
	log     *memlog.Log
	cluster *plannertest.Cluster
	history *history.History
	now     time.Time
	read    uint64
}

func newRig(t *testing.T, label string) *rig {
	r := &rig{T: t, log: memlog.New("test"), now: began, read: 1} // the first record is of another time
	r.history = history.New(r.log.ID())
	r.cluster = plannertest.New(append(plannertest.WithCatalogue(), plannertest.Pool("p"))...)
	r.cluster.AddNode("a", "p", func(n *corev1.Node) {
		n.Status.Allocatable = plannertest.Resources("cpu", "4", "memory", "16Gi", "pods", "10")
	})
	r.Observer = New(Config{Label: label, Log: r.log, History: func() *history.History { return r.history }, Now: func() time.Time { return r.now }, Logger: zerolog.Nop(),
		Versions: func() (*world.World, *ledger.Ledger, error) { return r.cluster.World.Version(), r.cluster.Ledger, nil }})
	r.pod("one", "shop", "1", "8Gi", "team", "pay")   // a quarter and a half: 3/8
	r.pod("two", "shop", "500m", "0", "team", "cart") // an eighth and nothing: 1/16
	r.pod("three", "web", "500m", "2Gi", "app", "x")  // an eighth and an eighth: 1/8; nobody's is the rest, 7/16
	r.tell(ledger.KindClaimAdopted, &ledger.ClaimAdopted{Claim: "a-claim", NodePool: "p"})
	r.tell(ledger.KindLaunched, &ledger.Launched{Claim: "a-claim", CapacityType: "spot", Price: 38_400, OnDemandPrice: 384_000})
	return r
}

func (r *rig) pod(name, namespace, cpu, memory string, labels ...string) {
	r.cluster.See(plannertest.Pod(name, plannertest.Namespace(namespace), plannertest.Requests("cpu", cpu, "memory", memory), plannertest.Labels(labels...), plannertest.On("a")))
}

func (r *rig) tell(kind ledger.Kind, payload any) (seq uint64) {
	r.Helper()
	d, err := audit.OutcomeDraft(audit.Outcome{Kind: kind, Payload: payload})
	if err != nil {
		r.Fatal(err)
	}
	d.Mode, d.Time = string(ledger.ModeActive), r.now
	rec, err := r.log.Append(r.Context(), d)
	if err != nil {
		r.Fatal(err)
	}
	r.follow()
	return rec.Seq
}

// follow gives what is new in the log to those who read it, and returns what is told of shares.
func (r *rig) follow() (told []*ledger.SharesObserved) {
	r.Helper()
	records, err := r.log.Read(r.Context(), r.read+1, 100)
	if err != nil {
		r.Fatal(err)
	}
	for _, rec := range records {
		e, err := audit.Decode(rec)
		if err != nil {
			r.Fatal(err)
		}
		r.read = rec.Seq
		r.history.Add(e)
		r.Met(e)
		if p, ok := e.Payload.(*ledger.SharesObserved); ok {
			if e.Service != audit.ServiceConsole || audit.Describe(e, "") == "" {
				r.Errorf("told by %s: %q", e.Service, audit.Describe(e, ""))
			}
			told = append(told, p)
		}
	}
	return told
}

// watch for a while, a look at a time, and return what is told of shares.
func (r *rig) watch(looks int) []*ledger.SharesObserved {
	r.Helper()
	for range looks {
		r.look(r.history)
		r.write(r.Context())
		r.now = r.now.Add(every)
	}
	return r.follow()
}

// Each look is 15 s: 1,600,000 billionths of a USD on demand and a tenth of it paid, of which each pod has
// the mean of its parts of the node's CPU and memory.
func TestAnHourIsSharedOutByRequests(t *testing.T) {
	r := newRig(t, "team")
	if told := r.watch(2); len(told) != 0 {
		t.Errorf("an hour that has not ended is on record: %+v", told)
	}
	live := r.history.Savings(began, r.now).Spot // 30 s: 3,200 micro USD, 320 paid
	if d := cmp.Diff([]history.SpotShare{{Name: "(unrequested)", OnDemand: 1400, Saved: 1260}, {Name: "shop", OnDemand: 1400, Saved: 1260}, {Name: "web", OnDemand: 400, Saved: 360}}, live.Namespaces); d != "" {
		t.Error(d)
	}
	r.now = began.Add(59*time.Minute + 45*time.Second) // not seen for long: counts as two looks
	r.cluster.See(plannertest.Pod("two", plannertest.Namespace("shop"), plannertest.On("a"), func(p *corev1.Pod) { p.Status.Phase = corev1.PodSucceeded }))
	told := r.watch(2) // one in the next hour
	want := []*ledger.SharesObserved{{Label: "team", Hour: began, Spot: []ledger.SpotShare{
		{NodePool: "p", OnDemand: 2*700_000 + 2*800_000, Cost: 2*70_000 + 2*80_000},
		{NodePool: "p", Namespace: "shop", Team: "cart", OnDemand: 2 * 100_000, Cost: 2 * 10_000},
		{NodePool: "p", Namespace: "shop", Team: "pay", OnDemand: 4 * 600_000, Cost: 4 * 60_000},
		{NodePool: "p", Namespace: "web", OnDemand: 4 * 200_000, Cost: 4 * 20_000},
	}}}
	if d := cmp.Diff(want, told); d != "" {
		t.Error(d)
	}
	r.now = began.Add(2 * time.Hour)
	other := New(r.cfg) // another replica saw the same
	other.hour, other.sums = began.Add(time.Hour), map[owner]*amounts{{"p", "shop", "pay"}: {1, 1}}
	if told := r.watch(1); len(told) != 1 || !told[0].Hour.Equal(began.Add(time.Hour)) {
		t.Errorf("told of the second hour: %+v", told)
	}
	other.look(r.history)
	if len(other.due) != 0 {
		t.Errorf("the second hour is told again: %+v", other.due[0])
	}
}

// Of which teams the pods of a command are is told before they are gone, once, and nothing if there is no
// label.
func TestTheTeamsOfACommand(t *testing.T) {
	for label, want := range map[string][]ledger.MovedPods{"": nil, "team": {{Claim: "a-claim", Teams: map[string]int{"pay": 1, "cart": 1, "": 1}}}} {
		r := newRig(t, label)
		command := ledger.CommandStarted{Reason: "Underutilized", Candidates: []ledger.Candidate{{Claim: "a-claim", NodePool: "p", Price: 8000}, {Claim: "b-claim", NodePool: "p", Price: 1000}}}
		for _, name := range []string{"one", "two", "three", "gone"} {
			command.Candidates[0].Pods = append(command.Candidates[0].Pods, ledger.PodRef{UID: types.UID("pod-" + name), Namespace: "shop", Name: name})
		}
		id := ledger.CommandID(r.log.ID(), r.tell(ledger.KindCommandMovesStarted, &command))
		told := r.watch(2)
		r.now = r.now.Add(freshFor + time.Second)
		r.Met(ledger.Entry{Seq: 99, Time: r.now.Add(-freshFor - time.Second), Mode: ledger.ModeActive, Payload: &command}) // read late
		if told = append(told, r.watch(1)...); (len(want) > 0) != (len(told) == 1) {
			t.Fatalf("label %q: told %d times", label, len(told))
		}
		for i := range want {
			want[i].Command = id
		}
		if len(told) > 0 {
			if d := cmp.Diff(want, told[0].Moved); d != "" {
				t.Error(d)
			}
			r.tell(ledger.KindCommandSucceeded, &ledger.CommandSucceeded{ID: id})
			want := "[{(no label) 1 1 1 2000 0} {(no pods) 1 1 0 1000 0} {(not observed) 1 0 1 2000 0} {cart 1 0 1 2000 0} {pay 1 0 1 2000 0}]"
			if got := fmt.Sprint(r.history.Savings(time.Time{}, r.now).Teams); got != want {
				t.Errorf("%s, want %s", got, want)
			}
		}
	}
}

// A record has a bounded number of shares, and in sum all of them; an hour has a bounded number of owners.
func TestARecordIsBounded(t *testing.T) {
	r := newRig(t, "team")
	r.sums[owner{"p", "", ""}] = &amounts{0.001, 0.001}
	for i := range sharesMax + 100 {
		r.sums[owner{"p", "shop", fmt.Sprint(i)}] = &amounts{1, 0.5}
	}
	p := r.record()
	sum := int64(0)
	for _, x := range p.Spot {
		sum += x.OnDemand
	}
	if len(p.Spot) != sharesMax+2 || p.Spot[0].Namespace != "" || p.Spot[1].Namespace != others || p.Spot[1].OnDemand != 100e9 || sum != 600_001_000_000 {
		t.Errorf("%d shares, first %+v, of %d", len(p.Spot), p.Spot[:2], sum)
	}
	for i := range ownersMax {
		r.sums[owner{"q", "shop", fmt.Sprint(i)}] = &amounts{}
	}
	seen := len(r.sums)
	r.hour = began
	if r.watch(1); len(r.sums) != seen+1 || r.sums[owner{"p", others, others}] == nil {
		t.Errorf("%d owners after %d", len(r.sums), seen)
	}
}

// refusing is a log that takes nothing.
type refusing struct{ store.Log }

func (refusing) Append(context.Context, store.Draft) (store.Record, error) {
	return store.Record{}, errors.New("no quorum")
}

// A record that cannot be written is written later.
func TestALogThatIsAwayForAWhile(t *testing.T) {
	r := newRig(t, "")
	r.watch(1)
	r.now, r.cfg.Log = began.Add(time.Hour), refusing{r.log}
	if told := r.watch(1); len(told) != 0 || len(r.due) != 1 {
		t.Errorf("%d records are due, %d told", len(r.due), len(told))
	}
	r.cfg.Log = r.log
	if told := r.watch(1); len(told) != 1 || !told[0].Hour.Equal(began) || len(r.due) != 0 {
		t.Errorf("%d records are due, told are %+v", len(r.due), told)
	}
}
