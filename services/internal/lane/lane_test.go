package lane

import (
	"fmt"
	"slices"
	"testing"
)

func TestAFullLaneLeavesOthersAlone(t *testing.T) {
	q := NewQueue[int](0)
	for i := range 1000 {
		q.Offer(Create, fmt.Sprintf("claim/%d", i), i)
	}
	if running, waiting := q.Load(Create); running != 64 || waiting != 936 {
		t.Errorf("%d run and %d wait", running, waiting)
	}
	for _, l := range []Lane{Converge, Terminate, Tag, Seek, NodeClass, Scan, Poll, Tidy, Evict} {
		if start, _ := q.Offer(l, string(l), 0); !start {
			t.Errorf("%s is held up", l)
		}
	}
}

func TestWhoeverCameFirstIsServedFirst(t *testing.T) {
	q := NewQueue[int](1)
	q.Offer(Create, "running", 0)
	for _, key := range []string{"z", "m", "a"} {
		if start, taken := q.Offer(Create, key, 1); start || !taken {
			t.Fatalf("%s: started %t, taken %t", key, start, taken)
		}
	}
	if _, taken := q.Offer(Create, "m", 2); taken {
		t.Error("a key was taken twice")
	}
	var order []string
	key, _, ok := q.End("running")
	for ; ok; key, _, ok = q.End(key) {
		order = append(order, key)
	}
	if want := []string{"z", "m", "a"}; !slices.Equal(order, want) {
		t.Errorf("served %v, want %v", order, want)
	}
	if q.IsTaken("a") {
		t.Error("a key is taken after its effect ended")
	}
}

func TestWhatWaitsIsBounded(t *testing.T) {
	q := NewQueue[int](1)
	taken := 0
	for i := range waitingMax + 100 {
		if _, ok := q.Offer(Evict, fmt.Sprint(i), i); ok {
			taken++
		}
	}
	if taken != waitingMax+1 {
		t.Errorf("%d were taken", taken)
	}
	q.Refuse(true)
	if _, ok := q.Offer(Converge, "x", 0); ok {
		t.Error("a queue that refuses took an effect")
	}
	if _, _, ok := q.End("0"); ok {
		t.Error("what waited was not dropped")
	}
	if q.Refuse(false); q.IsTaken("1") {
		t.Error("what was dropped is still taken")
	}
}
