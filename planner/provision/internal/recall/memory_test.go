package recall

import (
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"millwright/planner"
	"millwright/planner/ledger"
	"millwright/planner/provision/internal/place"
	"millwright/planner/provision/internal/solve"
	"millwright/planner/world"
)

// asking asks a Memory about pods that are alike.
type asking struct {
	m        Memory[int]
	snapshot *planner.Snapshot
}

func newAsking() *asking {
	w, l := world.New(), ledger.New("0123456789abcdef0123456789abcdef")
	return &asking{snapshot: planner.SnapshotAt(w.Version(), l.Version(), time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC))}
}

// pass is one over the same cluster, in which so many pods are asked about; it reports whether the answer was
// given back.
func (a *asking) pass(subnet string, pods int) (recalled bool) {
	a.m.Begin(a.snapshot)
	defer a.m.End()
	in, pod := &solve.Input{}, &world.Pod{UID: "1", Class: web}
	in.FullSubnets = []string{subnet}
	in.Prior = func(types.UID) place.Target { return place.Target{} }
	in.Excluded = func(types.UID) []ledger.ExcludedNode { return nil }
	for range pods {
		in.Pods = append(in.Pods, pod)
	}
	recalled = true
	a.m.Answer("placed", in, nil, func() int {
		recalled = false
		return 0
	})
	return recalled
}

// idle is a pass in which nobody asks.
func (a *asking) idle() {
	a.m.Begin(a.snapshot)
	a.m.End()
}

func TestAnAnswerIsForgottenAfterPassesInWhichNobodyAsks(t *testing.T) {
	a := newAsking()
	a.pass("", 1)
	for range passesMax - 1 {
		a.idle()
	}
	if !a.pass("", 1) {
		t.Errorf("it is forgotten after %d passes", passesMax-1)
	}
	for range passesMax {
		a.idle()
	}
	if a.pass("", 1) {
		t.Errorf("it is remembered after %d passes", passesMax)
	}
}

func TestAMemoryHoldsSoManyPodsAtMost(t *testing.T) {
	a := newAsking()
	if a.pass("", podsMax+1); a.pass("", podsMax+1) {
		t.Errorf("%d pods are remembered", podsMax+1)
	}
	if a.pass("", podsMax); !a.pass("", podsMax) {
		t.Errorf("%d pods are not remembered", podsMax)
	}
	if a.pass("other", podsMax); !a.pass("other", podsMax) {
		t.Error("the pods of an answer that was forgotten still count")
	}
}
