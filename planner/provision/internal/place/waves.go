package place

import (
	karpv1 "millwright/api/karpenter/v1"
	awsv1 "millwright/api/karpenteraws/v1"
	"millwright/planner/bitset"
	"millwright/planner/catalog"
	"millwright/planner/options"
	"millwright/planner/provision/internal/offer"
	"millwright/planner/requirement"
)

// waves bounds how many claims that can only have accelerated types a NodePool has in flight: EC2 often has
// none, and then all of them fail. What was launched lately is a reason to expect as much again, so that the
// number doubles with each wave that succeeds:
//
//	600 claims needed, waves of 40    40 are planned; once they are launched 40 more, then 80, 160, 280
//	8 of the first 40 can be had      8 are launched; the others fail, and their offerings are marked
//
// Claims that hold reserved capacity, or can have another type, do not count.
type waves struct {
	// accelerated types, by template; nil if there are none.
	accelerated []bitset.Set
	// left is how many claims may still be opened, by template. It is replaced, never changed.
	left []int64
}

// newWaves counts the claims in flight; nil if nothing is to be bounded.
func newWaves(templates []*offer.Template, in *Input) *waves {
	if in.Options.AcceleratedWave <= 0 {
		return nil
	}
	w := &waves{}
	of := map[*catalog.Catalog]bitset.Set{}
	for _, t := range templates {
		types, known := of[t.Catalog]
		if !known {
			types = Accelerated(t.Catalog)
			of[t.Catalog] = types
		}
		left := int64(0)
		if types != nil {
			left = max(in.Options.AcceleratedWave, launchesOf(in, t.Name, t.Catalog, types)) - flyingOf(in, t.Name)
		}
		w.accelerated, w.left = append(w.accelerated, types), append(w.left, left)
	}
	return w
}

// Accelerated are the types with GPUs or other accelerators; nil if there are none.
func Accelerated(c *catalog.Catalog) bitset.Set {
	var types bitset.Set
	for _, key := range []string{awsv1.LabelInstanceGPUCount, awsv1.LabelInstanceAcceleratorCount} {
		for _, v := range c.Values(key) {
			if types == nil {
				types = bitset.New(len(c.Types))
			}
			types.Or(c.Having(key, v))
		}
	}
	return types
}

// launchesOf counts what a NodePool launched lately of the types.
func launchesOf(in *Input, pool string, c *catalog.Catalog, types bitset.Set) (n int64) {
	for _, x := range in.LaunchedLately {
		if t := c.Type(x.InstanceType); x.NodePool == pool && t != nil && types.Has(t.Index) {
			n++
		}
	}
	return n
}

// flyingOf counts the claims of a NodePool that have no instance yet and can only have accelerated types.
func flyingOf(in *Input, pool string) (n int64) {
	for i := range in.Planned {
		if c := in.Planned[i].Claim; c.NodePool == pool && c.Instance == nil && c.Doomed == nil && isScarce(&in.Planned[i], &in.Options) {
			n++
		}
	}
	return n
}

func isScarce(p *PlannedInput, o *options.Options) bool {
	for i := range p.Claim.Planned.Requirements {
		q := &p.Claim.Planned.Requirements[i]
		if q.Key == awsv1.LabelCapacityReservationID && (isNaming(q) || o.Revision < options.Revision8) {
			return false
		}
	}
	scarce := Accelerated(p.Catalog)
	set, _ := requirement.FromClaim(p.Claim.Planned.Requirements)
	types := typesOf(p.Catalog, p.Claim.Planned, set)
	return scarce != nil && types.Any() && isWithin(types, scarce)
}

func isWithin(types, all bitset.Set) bool {
	for i := range types {
		if types[i]&^all[i] != 0 {
			return false
		}
	}
	return true
}

// bounds reports that claims of a template may be counted.
func (w *waves) bounds(t *offer.Template) bool { return w != nil && w.accelerated[t.Index] != nil }

// counts reports that a claim of a template counts which can have these types and holds reserved capacity.
func (w *waves) counts(t *offer.Template, types bitset.Set, holds []string) bool {
	return w.bounds(t) && len(holds) == 0 && isWithin(types, w.accelerated[t.Index])
}

// admit reports that one more claim may be of these types alone.
func (w *waves) admit(t *offer.Template, types bitset.Set, holds []string) bool {
	return !w.counts(t, types, holds) || w.left[t.Index] > 0
}

// take counts a new claim if it counts.
func (w *waves) take(o *OpenClaim) {
	if !o.InWave && o.Earlier == nil && w.counts(o.Template, o.Types, o.Holds) {
		o.InWave = true
		w.add(o.Template, -1)
	}
}

// giveBack is for a claim that is not made after all.
func (w *waves) giveBack(o *OpenClaim) {
	if o.InWave {
		o.InWave = false
		w.add(o.Template, 1)
		o.Template.Limits.Moved++
	}
}

func (w *waves) add(t *offer.Template, n int64) {
	left := make([]int64, len(w.left))
	copy(left, w.left)
	left[t.Index] += n
	w.left = left
}

// InFullWave reports that claims of a template could have these types if not as many were in flight.
func InFullWave(l *Layout, t *offer.Template, types bitset.Set) bool {
	return !l.waves.admit(t, types, nil)
}

// WaveLeft is how many claims of the types a NodePool, of its own catalogue, may have without an instance.
// bounded is false if there is no limit.
func WaveLeft(in *Input, p *karpv1.NodePool, c *catalog.Catalog, types bitset.Set) (most int64, bounded bool) {
	scarce := Accelerated(c)
	if in.Options.AcceleratedWave <= 0 || scarce == nil || !types.Any() || !isWithin(types, scarce) {
		return 0, false
	}
	return max(in.Options.AcceleratedWave, launchesOf(in, p.Name, c, scarce)), true
}
