package view_test

import (
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"

	karpv1 "millwright/api/karpenter/v1"
	"millwright/planner/ledger"
	"millwright/planner/plannertest"
	"millwright/planner/world"
	"millwright/services/console/consoletest"
	"millwright/services/console/view"
)

// seen is a View of a cluster.
func seen(c *plannertest.Cluster, now func() time.Time) *view.View {
	return view.New(view.Config{Now: now, Versions: func() (*world.World, *ledger.Ledger, error) { return c.World.Version(), c.Ledger.Version(), nil }})
}

// verdicts are what Now says of each node after a look: its state, and why it stays or that it is to go.
func verdicts(t *testing.T, v *view.View) map[string]string {
	t.Helper()
	v.Look(t.Context())
	now, err := v.Now()
	if err != nil {
		t.Fatal(err)
	}
	said := map[string]string{}
	for _, n := range now.Nodes {
		text := n.State
		if n.ToGo {
			text += ", to go"
		}
		if n.Stays != "" {
			text += ", stays: " + n.Stays
		}
		said[n.Name] = text
	}
	if now.StaysAsOf.IsZero() {
		t.Error("it does not say as of when")
	}
	return said
}

// Of each node that is ready it is said why it stays, or that it is to go; of others their state says enough.
func TestWhyNodesStay(t *testing.T) {
	closed := func(name string) *karpv1.NodePool {
		return plannertest.Pool(name, plannertest.Budgets(karpv1.Budget{Nodes: "0"}))
	}
	c := plannertest.New(append(plannertest.WithCatalogue(), plannertest.Pool("p"), closed("closed"), plannertest.Pool("never", plannertest.ConsolidateAfter(karpv1.Never)))...)
	for name, pool := range map[string]string{"empty": "p", "kept": "p", "budget": "closed", "idle": "never"} {
		c.AddNode(name, pool)
	}
	c.AddNode("sick", "p", plannertest.NotReady)
	c.AddNode("drains", "p")
	c.Record(ledger.KindDrainStarted, &ledger.DrainStarted{Node: "drains", Claim: "drains-claim"})
	c.See(plannertest.Node("foreign"),
		plannertest.Pod("keeps", plannertest.On("kept"), plannertest.Requests("cpu", "1"), plannertest.Annotation(karpv1.DoNotDisruptAnnotationKey, "true")))
	said := verdicts(t, seen(c, func() time.Time { return c.Clock }))
	for name, want := range map[string]string{
		"empty": "ready, to go", "kept": "ready, stays: pod default/keeps: …", "budget": "ready, stays: the disruption budget of NodePool closed", "idle": "ready, stays: …",
		"sick": "not ready", "drains": "draining", "foreign": "ready, stays: it has no NodeClaim",
	} {
		begin, more := strings.CutSuffix(want, "…")
		if got := said[name]; !strings.HasPrefix(got, begin) || more != (got != begin) {
			t.Errorf("%s: %q, want %q", name, got, want)
		}
	}
	c.Record(ledger.KindControlChanged, &ledger.ControlChanged{Stop: ledger.StopVoluntary, By: "ann", Why: "tries"})
	if got, want := verdicts(t, seen(c, func() time.Time { return c.Clock }))["empty"], "ready, stays: it would go, but that is stopped"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
}

// What a pass does not come to, because it takes something before or has no steps left, keeps what was found
// of it last.
func TestWhatALookDoesNotComeToKeepsItsVerdict(t *testing.T) {
	clock := consoletest.ClockAt(plannertest.Start)
	pool := plannertest.Pool("p")
	for key, value := range map[string]string{corev1.LabelInstanceTypeStable: "m5.xlarge", karpv1.CapacityTypeLabelKey: karpv1.CapacityTypeOnDemand} {
		pool.Spec.Template.Spec.Requirements = append(pool.Spec.Template.Spec.Requirements, karpv1.NodeSelectorRequirementWithMinValues{Key: key, Operator: corev1.NodeSelectorOpIn, Values: []string{value}})
	}
	c := plannertest.New(append(plannertest.WithCatalogue(), pool)...)
	c.AddNode("full", "p")
	c.See(plannertest.Pod("needs-it", plannertest.On("full"), plannertest.Requests("cpu", "3500m", "memory", "13Gi")))
	v := seen(c, clock.Now)
	before := verdicts(t, v)["full"]
	if !strings.HasPrefix(before, "ready, stays: ") {
		t.Fatalf("%q", before)
	}
	c.AddNode("empty", "p")
	clock.Advance(time.Minute)
	if got := verdicts(t, v); got["empty"] != "ready, to go" || got["full"] != before {
		t.Errorf("%v, before: %s", got, before)
	}
}

// Looks at a cluster take a fiftieth of a core: after one that took two seconds nobody's question begins
// another for a hundred.
func TestLooksAreBounded(t *testing.T) {
	clock := consoletest.ClockAt(plannertest.Start)
	c := plannertest.New(append(plannertest.WithCatalogue(), plannertest.Pool("p"))...)
	c.AddNode("a", "p")
	looks := 0
	v := view.New(view.Config{Now: clock.Now, Versions: func() (*world.World, *ledger.Ledger, error) {
		looks++
		clock.Advance(2 * time.Second)
		return c.World.Version(), c.Ledger.Version(), nil
	}})
	for _, step := range []struct {
		later time.Duration
		want  int
	}{{0, 1}, {time.Second, 1}, {98 * time.Second, 1}, {2 * time.Second, 2}} {
		clock.Advance(step.later)
		v.Look(t.Context())
		if looks != step.want {
			t.Errorf("%s later there were %d looks, want %d", step.later, looks, step.want)
		}
	}
}

// However many ask there is one look at a time, and nobody waits for it longer than a moment, or at all if
// they need not.
func TestOneLookAtATime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var looks atomic.Int64
		goOn := make(chan struct{})
		v := view.New(view.Config{Now: time.Now, Versions: func() (*world.World, *ledger.Ledger, error) {
			looks.Add(1)
			<-goOn
			return nil, nil, fmt.Errorf("nothing was seen")
		}})
		var asking sync.WaitGroup
		began := time.Now()
		for range 20 {
			asking.Go(func() { v.Look(t.Context()) })
		}
		asking.Wait()
		if took := time.Since(began); looks.Load() != 1 || took > time.Second {
			t.Errorf("%d looks, and they waited for %s", looks.Load(), took)
		}
		goOn <- struct{}{}
		time.Sleep(time.Minute)
		asking.Go(func() { v.Look(t.Context()) })
		synctest.Wait()
		if looks.Load() != 2 {
			t.Errorf("%d looks once the first had ended and a minute had passed", looks.Load())
		}
		began = time.Now()
		v.Look(t.Context())
		if took := time.Since(began); took > 0 {
			t.Errorf("somebody waited for %s although another does, and there is an older answer", took)
		}
		goOn <- struct{}{}
		asking.Wait()
	})
}
