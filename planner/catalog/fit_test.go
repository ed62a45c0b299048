package catalog

import (
	"fmt"
	"testing"

	"pgregory.net/rapid"

	"millwright/planner/resource"
)

// TestManyAmountsAreIndexedSparsely: among more amounts than have sets of their own, every amount, and those
// between, give the right set.
func TestManyAmountsAreIndexedSparsely(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(1, 400).Draw(t, "types")
		spread := rapid.Int64Range(1, 900).Draw(t, "amounts")
		seed := rapid.Int64Range(1, 1<<30).Draw(t, "seed")
		var types []*InstanceType
		for i := range n {
			seed = (seed*6364136223846793005 + 1442695040888963407) & (1<<62 - 1)
			types = append(types, &InstanceType{Hardware: &Hardware{Name: fmt.Sprintf("t%03d", i), Capacity: resource.Vector{MilliCPU: 1, Memory: seed >> 20 % spread}}})
		}
		c := FromTypes("class", types...)
		b, within := c.All(), c.All()
		for i := range n {
			if seed>>(i%40)&1 == 0 {
				b.Remove(i)
			}
			if seed>>(i%37)&1 == 0 {
				within.Remove(i)
			}
		}
		for amount := int64(0); amount <= spread+1; amount += 1 + spread/97 {
			got := b.Clone()
			c.Narrow(got, &resource.Vector{Memory: amount})
			for i, x := range c.Types {
				if want := b.Has(i) && x.Allocatable.Memory >= amount; got.Has(i) != want {
					t.Fatalf("type %d of %d bytes for %d: %v", i, x.Allocatable.Memory, amount, !want)
				}
			}
		}
		largest := int64(0)
		for i, x := range c.Types {
			if b.Has(i) && within.Has(i) {
				largest = max(largest, x.Allocatable.Memory)
			}
		}
		if got := c.Largest(b, within, nil).Memory; got != largest {
			t.Fatalf("the largest has %d, not %d", got, largest)
		}
	})
}

// TestWhatIsKnownOfAShrinkingSetIsTrue: whatever a set loses, an answer that uses what is known of the set is
// the same as one without.
func TestWhatIsKnownOfAShrinkingSetIsTrue(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(1, 300).Draw(t, "types")
		spread := rapid.Int64Range(1, 700).Draw(t, "amounts")
		var types []*InstanceType
		for i := range n {
			amount := int64(i) * 7919 % spread
			types = append(types, &InstanceType{Hardware: &Hardware{Name: fmt.Sprintf("t%03d", i), Capacity: resource.Vector{MilliCPU: amount, Memory: spread - amount, Pods: amount % 5}}})
		}
		c := FromTypes("class", types...)
		b, within, known := c.All(), c.All(), Extent{}
		for i := range n {
			if rapid.IntRange(0, 3).Draw(t, "outside") == 0 {
				within.Remove(i)
			}
		}
		for range rapid.IntRange(1, 12).Draw(t, "steps") {
			b.Remove(rapid.IntRange(0, n-1).Draw(t, "lost"))
			need := resource.Vector{MilliCPU: rapid.Int64Range(0, spread).Draw(t, "cpu"), Memory: rapid.Int64Range(0, spread/2).Draw(t, "memory"), Pods: rapid.Int64Range(0, 3).Draw(t, "pods")}
			want, extent := b.Clone(), known
			c.Narrow(want, &need)
			c.NarrowWithin(b, &need, &extent)
			if !b.Equal(want) {
				t.Fatalf("narrowed to %v, not %v", b, want)
			}
			known = extent
			if got, want := c.LargestWithin(b, within, nil, &known), c.Largest(b, within, nil); !got.Equal(want) {
				t.Fatalf("the largest are %v, not %v", got, want)
			}
		}
	})
}
