package whatif_test

import (
	"context"
	"encoding/json"
	"errors"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	karpv1 "millwright/api/karpenter/v1"
	"millwright/events"
	"millwright/planner"
	"millwright/planner/ledger"
	"millwright/planner/world"
	"millwright/store/audit"
	"millwright/store/audit/recording"
	"millwright/store/audit/whatif"
)

func check(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func open(t testing.TB, name string) *recording.Recording {
	t.Helper()
	rec, err := recording.Open("../testdata/v20/" + name + ".rec")
	check(t, err)
	return rec
}

func run(t testing.TB, rec *recording.Recording, c whatif.Change) *whatif.Report {
	t.Helper()
	r, err := whatif.Run(t.Context(), rec, rec, whatif.Request{Change: c})
	check(t, err)
	return r
}

// last is the World at the end of a recording.
func last(t testing.TB, rec *recording.Recording) *world.World {
	t.Helper()
	st, err := rec.State(t.Context())
	check(t, err)
	w := world.New()
	w.SetIncarnation(st.Incarnation)
	err = rec.Consume(t.Context(), 1, func(m events.Message) error {
		o, err := events.Decode(m.Data)
		check(t, err)
		check(t, events.ResolveCatalog(t.Context(), rec.Blobs(), &o, w.HoldsCatalog))
		w.Apply(m.Sequence, o)
		if m.Sequence == st.Last {
			return context.Canceled
		}
		return nil
	})
	if err != nil && !errors.Is(err, context.Canceled) {
		t.Fatal(err)
	}
	return w
}

var recordings = []string{"TestPodsGetNodesAndEmptyNodesGo_in_one_process", "TestNoCapacityAtAllThenSome", "TestDrainWaitsForPodDisruptionBudgets", "TestNodeOverlays"}

// What changes nothing is planned as it was, and as many decisions as replay plans again.
func TestWithoutAChangeEverythingIsDecidedAgain(t *testing.T) {
	for _, name := range recordings {
		rec := open(t, name)
		replayed, err := audit.Replay(t.Context(), rec, rec, audit.Range{})
		check(t, err)
		same := whatif.Change{}
		for _, p := range last(t, rec).NodePools() {
			same.Objects = append(same.Objects, &karpv1.NodePool{ObjectMeta: metav1.ObjectMeta{Name: p.Name}, Spec: p.Spec})
		}
		for about, c := range map[string]whatif.Change{"no change": {}, "the NodePools that were there": same} {
			r := run(t, rec, c)
			if r.Planned == 0 || r.Planned != replayed.Planned || r.Changed > 0 || r.Was.MicroUSDPerHour != r.Instead.MicroUSDPerHour {
				t.Errorf("%s, %s: planned %d (replay %d), changed %d: %+v", name, about, r.Planned, replayed.Planned, r.Changed, r.Decisions)
			}
		}
	}
}

// never lets no node of a NodePool be consolidated.
func never(t testing.TB, rec *recording.Recording) whatif.Change {
	var c whatif.Change
	for _, p := range last(t, rec).NodePools() {
		p = p.DeepCopy()
		p.Spec.Disruption.Budgets = []karpv1.Budget{{Nodes: "0"}}
		c.Objects = append(c.Objects, p)
	}
	return c
}

func TestANodePoolThatAllowsNoDisruptionTakesNothing(t *testing.T) {
	rec := open(t, recordings[0])
	r := run(t, rec, never(t, rec))
	taken := 0
	for _, d := range r.Decisions {
		switch {
		case d.Service == ledger.ServiceProvisioner && d.Difference != whatif.Same:
			t.Errorf("%+v", d)
		case d.Was.Taken > 0:
			taken++
			if d.Difference != whatif.None || d.Instead.Text != "nothing" || d.Was.MicroUSDPerHour >= 0 {
				t.Errorf("%+v", d)
			}
		}
	}
	if taken == 0 || r.Disruption.Was.Taken == 0 || r.Disruption.Instead.Taken > 0 || r.Disruption.Was.MicroUSDPerHour >= 0 {
		t.Errorf("%d commands; %+v", taken, r.Disruption)
	}
}

// A type that has become dear is not chosen, and the difference is what the other one costs more.
func TestOtherPricesChooseOtherTypes(t *testing.T) {
	rec := open(t, recordings[0])
	before := run(t, rec, whatif.Change{})
	chosen := ""
	records, err := rec.Read(t.Context(), 1, 1<<20)
	check(t, err)
	for _, record := range records {
		e, err := audit.Decode(record)
		check(t, err)
		if p, ok := e.Payload.(*ledger.ProvisioningPlanned); ok && chosen == "" && len(p.Claims) > 0 {
			chosen = p.Claims[0].Cheapest.InstanceType
		}
	}
	c := whatif.Change{Prices: &events.Prices{}}
	for _, capacity := range []string{karpv1.CapacityTypeOnDemand, karpv1.CapacityTypeSpot} {
		c.Prices.Entries = append(c.Prices.Entries, events.Price{InstanceType: chosen, CapacityType: capacity, MicroUSDPerHour: 1_000_000_000})
	}
	r := run(t, rec, c)
	if r.Changed == 0 || r.Provisioning.Instead.MicroUSDPerHour <= before.Provisioning.Was.MicroUSDPerHour || r.Provisioning.Instead.MicroUSDPerHour > 1_000_000_000 {
		t.Errorf("without %s: %+v", chosen, r.Provisioning)
	}
}

// A NodePool for other nodes refuses the pods.
func TestANodePoolThatFitsNothingRefusesThePods(t *testing.T) {
	rec := open(t, recordings[0])
	var c whatif.Change
	for _, p := range last(t, rec).NodePools() {
		p = p.DeepCopy()
		p.Spec.Template.Spec.Taints = []corev1.Taint{{Key: "apart", Effect: corev1.TaintEffectNoSchedule}}
		c.Objects = append(c.Objects, p)
	}
	r := run(t, rec, c)
	if r.Provisioning.Was.Made == 0 || r.Provisioning.Instead.Made != 0 || r.Provisioning.Instead.Refused == 0 {
		t.Errorf("%+v", r.Provisioning)
	}
}

// The answer depends neither on how many plan at a time, nor on when they are done.
func TestTheAnswerIsTheSameEachTime(t *testing.T) {
	rec := open(t, recordings[0])
	c := never(t, rec)
	check(t, c.SetOption("node-cost=0.5"))
	want := ""
	for _, workers := range []int{1, 2, 7, 2} {
		r, err := whatif.Run(t.Context(), rec, rec, whatif.Request{Change: c, Workers: workers})
		check(t, err)
		b, err := json.Marshal(r)
		check(t, err)
		if want == "" {
			want = string(b)
		}
		if d := cmp.Diff(want, string(b)); d != "" {
			t.Errorf("%d workers: %s", workers, d)
		}
	}
}

func TestWhatIsRefused(t *testing.T) {
	for text, want := range map[string]string{
		"node-cost":            `option "node-cost": must be NAME=VALUE`,
		"node-cost=-1":         `option node-cost: "-1" must be USD from 0 to 1000`,
		"node-cost=NaN":        `option node-cost: "NaN" must be USD from 0 to 1000`,
		"min-values-policy=No": `option min-values-policy: "No" must be Strict or BestEffort`,
		"feature-gates=A":      `option feature-gates: feature gate "A" has no value: must be Name=true or Name=false`,
		"nodes=1":              `option "nodes": must be one of eviction-cost, feature-gates, min-values-policy, node-cost, preference-policy`,
	} {
		c := whatif.Change{}
		if err := c.SetOption(text); err == nil || err.Error() != want {
			t.Errorf("%s: %v", text, err)
		}
	}
	rec := open(t, recordings[1])
	_, err := whatif.Run(t.Context(), rec, rec, whatif.Request{Change: whatif.Change{Objects: []metav1.Object{&corev1.Pod{}}}})
	if err == nil {
		t.Error("a Pod was taken")
	}
}

func TestARangeBoundsWhatIsPlannedAgain(t *testing.T) {
	rec := open(t, recordings[0])
	all := run(t, rec, whatif.Change{})
	one := all.Decisions[len(all.Decisions)/2].Records[0]
	r, err := whatif.Run(t.Context(), rec, rec, whatif.Request{Range: audit.Range{From: one, To: one}})
	check(t, err)
	if r.Planned != 1 || r.From != one || r.To != one {
		t.Errorf("%+v", r)
	}
	records, err := rec.Read(t.Context(), 1, 1<<20)
	check(t, err)
	for _, record := range records {
		got, err := audit.FirstSince(t.Context(), rec, uint64(len(records)), record.Time)
		check(t, err)
		if got > record.Seq || got < record.Seq && !records[got-1].Time.Equal(record.Time) {
			t.Errorf("first since record %d: %d", record.Seq, got)
		}
	}
	if got, err := audit.FirstSince(t.Context(), rec, uint64(len(records)), records[len(records)-1].Time.Add(time.Hour)); err != nil || got != uint64(len(records))+1 {
		t.Error(got, err)
	}
}

// A change that a planner fails on is why a decision was not planned again, and nothing else.
func TestAChangeThatAPlannerFailsOn(t *testing.T) {
	r := run(t, open(t, "TestDeletingByHand"), whatif.Change{Options: func(*planner.Options) { panic("no such object") }})
	if r.Planned != 0 || len(r.NotPlanned) == 0 || r.NotPlanned[len(r.NotPlanned)-1].Reason != "the planner failed on the change: no such object" {
		t.Errorf("%d planned, %+v", r.Planned, r.NotPlanned)
	}
}
