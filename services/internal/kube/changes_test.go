package kube

import (
	"fmt"
	"testing"
)

func TestChangesSince(t *testing.T) {
	var c Changes
	if _, _, complete := c.Since(0); !complete {
		t.Error("nothing is missing of nothing")
	}
	for i := range 3 * changesMax {
		c.Add(Change{Kind: NodeKind, Name: fmt.Sprint(i)})
	}
	last := uint64(3 * changesMax)
	if list, now, complete := c.Since(last - 2); !complete || now != last || len(list) != 2 || list[1].Name != fmt.Sprint(last-1) {
		t.Errorf("since two changes ago: %v, %d, complete %t", list, now, complete)
	}
	if list, _, complete := c.Since(last); !complete || len(list) != 0 {
		t.Errorf("since now: %v, complete %t", list, complete)
	}
	for _, version := range []uint64{0, last - 2*changesMax - 1, last + 1} {
		if _, now, complete := c.Since(version); complete || now != last {
			t.Errorf("since %d: complete %t, now %d", version, complete, now)
		}
	}
	if len(c.list) > 2*changesMax {
		t.Errorf("%d changes are remembered", len(c.list))
	}
}
