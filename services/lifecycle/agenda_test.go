package lifecycle

import (
	"context"
	"maps"
	"slices"
	"testing"
	"time"

	karpv1 "millwright/api/karpenter/v1"
	"millwright/planner/ledger"
)

func TestWakesComeInOrderAndOnce(t *testing.T) {
	at := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	w := wakes{at: map[string]time.Time{}}
	w.setWake("b", at.Add(2*time.Second))
	w.setWake("a", at.Add(time.Second))
	w.setWake("c", at.Add(time.Second))
	w.setWake("a", at.Add(3*time.Second)) // postponed
	w.setWake("d", at.Add(time.Second))
	w.setWake("d", time.Time{}) // called off
	if next := w.next(); !next.Equal(at.Add(time.Second)) {
		t.Errorf("the first is at %s", next)
	}
	for second, want := range [][]string{nil, {"c"}, {"b"}, {"a"}, nil} {
		if got := w.due(at.Add(time.Duration(second) * time.Second)); !slices.Equal(got, want) {
			t.Errorf("after %d s %v are due, want %v", second, got, want)
		}
	}
	for range 1000 {
		at = at.Add(time.Second)
		w.setWake("a", at)
		w.next()
	}
	if len(w.heap) > 2 {
		t.Errorf("%d entries for one claim", len(w.heap))
	}
}

func TestDifferingVersionsAreHeardOf(t *testing.T) {
	a, b, c, d := &ledger.Claim{Name: "a"}, &ledger.Claim{Name: "b"}, &ledger.Claim{Name: "c"}, &ledger.Claim{Name: "d"}
	changed := &ledger.Claim{Name: "c"}
	var heard []string
	differing([]*ledger.Claim{a, b, c}, []*ledger.Claim{b, changed, d}, func(c *ledger.Claim) string { return c.Name },
		func(c *ledger.Claim) { heard = append(heard, c.Name) })
	if want := []string{"a", "c", "d"}; !slices.Equal(heard, want) {
		t.Errorf("heard of %v, want %v", heard, want)
	}
}

// settled is a rig with so many claims ready and nothing left to do.
func settled(t testing.TB, n int) *rig {
	r := newRig(t)
	r.kube.tracked = true
	r.readyClaims(n)
	r.wait(fullEvery + 5*time.Second)
	return r
}

// looks counts the claims that the next step looks at.
func looks(t testing.TB, r *rig) int {
	before := r.svc.looks
	if _, err := r.svc.Step(context.Background()); err != nil {
		t.Fatal(err)
	}
	return r.svc.looks - before
}

func TestAStepLooksAtWhatChanged(t *testing.T) {
	const claims = 50
	r := settled(t, claims)
	r.now = r.svc.agenda.full.Add(time.Second)
	looks(t, r)
	name := slices.Sorted(maps.Keys(r.kube.claims))[7]
	for what, c := range map[string]struct {
		change func()
		most   int
	}{
		"nothing":     {func() {}, 0},
		"a NodeClaim": {func() { r.kube.put(&r.kube.claims, r.kube.claims[name].DeepCopy()) }, 1},
		"a Node":      {func() { r.kube.put(&r.kube.nodes, r.kube.nodes["node-i-0003"].DeepCopy()) }, 1},
		"a NodePool's status": {func() {
			p := r.kube.pools["default"].DeepCopy()
			p.Status.Resources = nil
			r.kube.put(&r.kube.pools, p)
		}, 0},
		"a record": {func() {
			r.other(ledger.ServiceTerminator, ledger.KindDrainStarted, &ledger.DrainStarted{Node: "node-i-0003", Claim: name})
		}, 1},
		"another NodeClass": {func() {
			nc := r.kube.classes["default"].DeepCopy()
			nc.Status.Conditions = nil
			r.kube.put(&r.kube.classes, nc)
		}, claims},
	} {
		c.change()
		if n := looks(t, r); n > c.most || n < c.most {
			t.Errorf("after a change of %s, %d claims are looked at, want %d", what, n, c.most)
		}
		for len(r.queue) > 0 {
			r.carryOut()
		}
		looks(t, r)
		looks(t, r)
	}
}

// A change that nobody hears of is found with the next full look.
func TestAnUnheardChangeIsFoundInTime(t *testing.T) {
	r := settled(t, 3)
	name := slices.Sorted(maps.Keys(r.kube.claims))[0]
	o := r.kube.claims[name].DeepCopy()
	delete(o.Annotations, karpv1.NodePoolHashAnnotationKey)
	o.Finalizers = nil
	r.kube.claims[name] = o // as if the informer had not reported it
	r.run("the finalizer is back", func() bool { return len(r.kube.claims[name].Finalizers) > 0 })
}

// BenchmarkStep is the price of a step at 1,000 settled claims after a change of one thing.
func BenchmarkStep(b *testing.B) {
	r := settled(b, 1000)
	for what, change := range map[string]func(){
		"pod event": func() {},
		"Node":      func() { r.kube.put(&r.kube.nodes, r.kube.nodes["node-i-0003"].DeepCopy()) },
		"record": func() {
			r.other(ledger.ServiceTerminator, ledger.KindDrainStarted, &ledger.DrainStarted{Node: "node-i-0003", Claim: "x"})
			r.other(ledger.ServiceTerminator, ledger.KindDrainEnded, &ledger.DrainEnded{Node: "node-i-0003"})
		},
		"everything": func() { r.svc.agenda.lookAtAll() },
	} {
		b.Run(what, func(b *testing.B) {
			for b.Loop() {
				b.StopTimer()
				change()
				r.queue = nil
				b.StartTimer()
				if _, err := r.svc.Step(context.Background()); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
