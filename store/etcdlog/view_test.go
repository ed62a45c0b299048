package etcdlog

import (
	"fmt"
	"testing"
	"time"
)

// What a committer knows of aggregates is bounded; what it has forgotten it assumes or reads again.
func TestAViewForgetsAggregatesBeyondABound(t *testing.T) {
	v := &view{aggregates: map[string]uint64{}}
	for i := range 3 * aggregatesMax {
		name := fmt.Sprint("node/", i)
		v = v.after(&plan{advanced: map[string]uint64{name: uint64(i)}}, time.Time{})
		if len(v.aggregates) > aggregatesMax {
			t.Fatalf("%d aggregates after %d were advanced", len(v.aggregates), i+1)
		}
		if i < aggregatesMax && v.aggregates[name] != uint64(i) {
			t.Fatalf("aggregate %d is not known right after it was advanced", i)
		}
	}
}
