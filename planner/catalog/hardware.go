package catalog

import (
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	karpv1 "millwright/api/karpenter/v1"
	awsv1 "millwright/api/karpenteraws/v1"
	"millwright/events"
	"millwright/planner/intern"
	"millwright/planner/requirement"
	"millwright/planner/resource"
)

// Hardware is what an instance type is, wherever it can be had and whatever it costs. All catalogues whose
// NodeClasses make the same of a type share it: never change it.
type Hardware struct {
	Name string
	// Requirements are the labels its nodes may get, but for those that say where it can be had:
	// InstanceType.Requirements has all.
	Requirements requirement.Set
	// Allocatable = Capacity − Overhead, memory also less huge pages.
	Capacity, Overhead, Allocatable resource.Vector
	// derived has a bit for each of derivedKeys that the source did not give.
	derived uint8
}

// derivedKeys are the labels that follow from name and offerings where the source does not say them.
var derivedKeys = [...]string{corev1.LabelInstanceTypeStable, corev1.LabelTopologyZone, awsv1.LabelTopologyZoneID, karpv1.CapacityTypeLabelKey}

// placeKeys are the labels that say where a type can be had.
var placeKeys = slices.Concat(derivedKeys[1:], []string{awsv1.LabelPlacementGroupID, awsv1.LabelPlacementGroupPartition})

// place is what the labels of placeKeys may be, for all types for which it is the same.
type place struct {
	requirements requirement.Set
	derived      uint8
	key          string
}

// derive adds what follows from the rest; values are those of derivedKeys. The bits say of which keys it
// does.
func derive(s requirement.Set, values [len(derivedKeys)][]string) (requirement.Set, uint8) {
	bits := uint8(0)
	for i, key := range derivedKeys {
		if len(values[i]) > 0 && !s.Has(key) {
			s = s.Add(requirement.In(key, values[i]...))
			bits |= 1 << i
		}
	}
	return s, bits
}

func allocatable(capacity, overhead resource.Vector) resource.Vector {
	a := capacity.Sub(overhead)
	for _, e := range capacity.Extended {
		if strings.HasPrefix(string(e.Name), corev1.ResourceHugePagesPrefix) {
			a.Memory = max(0, a.Memory-e.Value)
		}
	}
	return a
}

func (h *Hardware) equal(o *Hardware) bool {
	return h == o || h.Name == o.Name && h.derived == o.derived && h.Capacity.Equal(o.Capacity) && h.Overhead.Equal(o.Overhead) &&
		h.Requirements.Equal(o.Requirements)
}

// shareParts takes from o, which is the same type of another catalogue, what is equal.
func (h *Hardware) shareParts(o *Hardware) {
	if h.Requirements.Equal(o.Requirements) {
		h.Requirements = o.Requirements
	}
	for _, p := range []struct{ ours, theirs *resource.Vector }{
		{&h.Capacity, &o.Capacity}, {&h.Overhead, &o.Overhead}, {&h.Allocatable, &o.Allocatable},
	} {
		if slices.Equal(p.ours.Extended, p.theirs.Extended) {
			p.ours.Extended = p.theirs.Extended
		}
	}
}

// texts makes equal texts, and equal lists of them, one.
type texts struct{ lists map[string][]string }

func (t *texts) intern(s string) string { return intern.String(s) }

func (t *texts) internList(values []string) []string {
	key := strings.Join(values, "\x00")
	if l, ok := t.lists[key]; ok {
		return l
	}
	l := make([]string, len(values))
	for i, v := range values {
		l[i] = t.intern(v)
	}
	t.lists[key] = l
	return l
}

// hardwareOf reads a type as it was published, and where it can be had.
func (t *texts) hardwareOf(src *events.CatalogInstanceType, places map[string]*place) (*Hardware, *place) {
	h := &Hardware{Name: t.intern(src.Name), Capacity: t.vector(src.Capacity), Overhead: t.vector(src.Overhead)}
	h.Allocatable = allocatable(h.Capacity, h.Overhead)
	reqs := make([]requirement.Requirement, 0, len(src.Requirements)+len(derivedKeys))
	for _, k := range slices.Sorted(maps.Keys(src.Requirements)) {
		reqs = append(reqs, requirement.In(t.intern(k), src.Requirements[k]...))
	}
	for _, o := range src.Others {
		reqs = append(reqs, requirement.New(t.intern(o.Key), corev1.NodeSelectorOperator(o.Operator), o.Values...))
	}
	all, bits := derive(requirement.NewSet(reqs...), [...][]string{
		{h.Name}, valuesOf(src, func(o *events.CatalogOffering) string { return o.Zone }),
		valuesOf(src, func(o *events.CatalogOffering) string { return o.ZoneID }),
		valuesOf(src, func(o *events.CatalogOffering) string { return o.CapacityType }),
	})
	p := &place{derived: bits &^ 1}
	h.Requirements, p.requirements = all.Interned(t.internList).Split(placeKeys...)
	h.derived = bits & 1
	p.key = string(rune(p.derived)) + p.requirements.Key()
	if known := places[p.key]; known != nil {
		return h, known
	}
	places[p.key] = p
	return h, p
}

func valuesOf(src *events.CatalogInstanceType, f func(*events.CatalogOffering) string) []string {
	var values []string
	for i := range src.Offerings {
		if v := f(&src.Offerings[i]); v != "" {
			values = append(values, v)
		}
	}
	return values
}

func (t *texts) vector(amounts map[string]int64) resource.Vector {
	v := resource.FromInt64(amounts)
	for i := range v.Extended {
		v.Extended[i].Name = corev1.ResourceName(t.intern(string(v.Extended[i].Name)))
	}
	v.Extended = slices.Clip(v.Extended)
	return v
}

// published is the inverse of hardwareOf, without what says where the type can be had.
func (h *Hardware) published() events.CatalogInstanceType {
	out := events.CatalogInstanceType{Name: h.Name, Requirements: map[string][]string{}, Capacity: h.Capacity.Int64(), Overhead: h.Overhead.Int64()}
	publish(&out, h.Requirements, h.derived)
	return out
}

// publish adds requirements to a type but those that were derived.
func publish(out *events.CatalogInstanceType, s requirement.Set, derived uint8) {
	for _, r := range s.Requirements() {
		if i := slices.Index(derivedKeys[:], r.Key()); i >= 0 && derived&(1<<i) != 0 {
			continue
		}
		if !r.Complement() && (len(r.Values()) > 0 || !r.Impossible()) {
			out.Requirements[r.Key()] = append([]string{}, r.Values()...)
			continue
		}
		for _, e := range r.ExactEntries() {
			out.Others = append(out.Others, events.CatalogRequirement{Key: e.Key, Operator: string(e.Operator), Values: e.Values})
		}
	}
}
