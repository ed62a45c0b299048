package resource

import (
	"cmp"
	"math"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
)

// Vector is an amount of each resource. The zero value is zero of everything.
type Vector struct {
	MilliCPU         int64 `json:"cpu,omitempty"`
	Memory           int64 `json:"memory,omitempty"`
	EphemeralStorage int64 `json:"ephemeralStorage,omitempty"`
	Pods             int64 `json:"pods,omitempty"`
	// Extended holds everything else, sorted by name, without zero amounts.
	Extended []Amount `json:"extended,omitempty"`
}

// Amount of an extended resource, in units.
type Amount struct {
	Name  corev1.ResourceName `json:"name"`
	Value int64               `json:"value"`
}

// Names of the resources with a field of their own.
const (
	CPU              = corev1.ResourceCPU
	Memory           = corev1.ResourceMemory
	EphemeralStorage = corev1.ResourceEphemeralStorage
	Pods             = corev1.ResourcePods
)

// From converts a ResourceList, rounding up to whole millicores, bytes and units.
func From(list corev1.ResourceList) Vector {
	var v Vector
	for name, q := range list {
		v.Set(name, AmountOf(name, q))
	}
	return v
}

// AmountMax bounds what is read of a Quantity, so that sums of several stay within int64: somebody may write
// 10E for what is not to be limited.
const AmountMax = int64(1) << 60

// AmountOf converts a Quantity of a resource, rounding up: cpu to millicores, all else to bytes or units. It
// is at most AmountMax, and at least -AmountMax.
func AmountOf(name corev1.ResourceName, q resource.Quantity) int64 {
	convert, most := q.Value, AmountMax
	if name == CPU {
		convert, most = q.MilliValue, AmountMax/1000
	}
	switch { // beyond int64 a Quantity's own conversions yield anything
	case q.CmpInt64(most) > 0:
		return AmountMax
	case q.CmpInt64(-most) < 0:
		return -AmountMax
	}
	return convert()
}

// FromInt64 converts amounts by name, cpu in millicores.
func FromInt64(amounts map[string]int64) Vector {
	var v Vector
	for name, n := range amounts {
		v.Set(corev1.ResourceName(name), n)
	}
	return v
}

// Int64 is the inverse of FromInt64; zero amounts are omitted.
func (v Vector) Int64() map[string]int64 {
	amounts := map[string]int64{}
	for _, name := range v.Names() {
		amounts[string(name)] = v.Get(name)
	}
	return amounts
}

// Get returns the amount of one resource; cpu in millicores.
func (v Vector) Get(name corev1.ResourceName) int64 {
	switch name {
	case CPU:
		return v.MilliCPU
	case Memory:
		return v.Memory
	case EphemeralStorage:
		return v.EphemeralStorage
	case Pods:
		return v.Pods
	}
	if i, ok := v.findAmount(name); ok {
		return v.Extended[i].Value
	}
	return 0
}

func (v Vector) findAmount(name corev1.ResourceName) (int, bool) {
	return slices.BinarySearchFunc(v.Extended, name, func(a Amount, n corev1.ResourceName) int { return cmp.Compare(a.Name, n) })
}

// Set changes one amount in place. It copies Extended, so that vectors sharing it are untouched.
func (v *Vector) Set(name corev1.ResourceName, n int64) {
	switch name {
	case CPU:
		v.MilliCPU = n
	case Memory:
		v.Memory = n
	case EphemeralStorage:
		v.EphemeralStorage = n
	case Pods:
		v.Pods = n
	default:
		v.setExtended(name, n)
	}
}

func (v *Vector) setExtended(name corev1.ResourceName, n int64) {
	i, found := v.findAmount(name)
	ext := slices.Clone(v.Extended)
	switch {
	case found && n == 0:
		ext = slices.Delete(ext, i, i+1)
	case found:
		ext[i].Value = n
	case n != 0:
		ext = slices.Insert(ext, i, Amount{Name: name, Value: n})
	}
	v.Extended = ext
}

// Add returns v + o, saturating at the largest int64.
func (v Vector) Add(o Vector) Vector { return combine(v, o, AddSaturated) }

// Sub returns v - o; amounts may become negative.
func (v Vector) Sub(o Vector) Vector { return combine(v, o, func(a, b int64) int64 { return a - b }) }

// Negated returns -v.
func (v Vector) Negated() Vector { return Vector{}.Sub(v) }

// Max returns the larger amount of each resource.
func (v Vector) Max(o Vector) Vector {
	return combine(v, o, func(a, b int64) int64 { return max(a, b) })
}

// Min returns the smaller amount of each resource.
func (v Vector) Min(o Vector) Vector {
	return combine(v, o, func(a, b int64) int64 { return min(a, b) })
}

// AddSaturated returns a + b, or the int64 that is closest to it.
func AddSaturated(a, b int64) int64 {
	switch {
	case a > 0 && b > math.MaxInt64-a:
		return math.MaxInt64
	case a < 0 && b < math.MinInt64-a:
		return math.MinInt64
	}
	return a + b
}

func combine(a, b Vector, f func(x, y int64) int64) Vector {
	r := Vector{
		MilliCPU: f(a.MilliCPU, b.MilliCPU), Memory: f(a.Memory, b.Memory),
		EphemeralStorage: f(a.EphemeralStorage, b.EphemeralStorage), Pods: f(a.Pods, b.Pods),
	}
	if len(a.Extended)+len(b.Extended) == 0 {
		return r
	}
	i, j := 0, 0
	for i < len(a.Extended) || j < len(b.Extended) {
		var m Amount
		switch {
		case j == len(b.Extended) || i < len(a.Extended) && a.Extended[i].Name < b.Extended[j].Name:
			m = Amount{a.Extended[i].Name, f(a.Extended[i].Value, 0)}
			i++
		case i == len(a.Extended) || b.Extended[j].Name < a.Extended[i].Name:
			m = Amount{b.Extended[j].Name, f(0, b.Extended[j].Value)}
			j++
		default:
			m = Amount{a.Extended[i].Name, f(a.Extended[i].Value, b.Extended[j].Value)}
			i, j = i+1, j+1
		}
		if m.Value != 0 {
			r.Extended = append(r.Extended, m)
		}
	}
	return r
}

// Fits reports that total holds v: no amount of total is negative, and each requested amount is at most
// the total's, absent counting as 0 (reference: scheduling §4).
func (v Vector) Fits(total Vector) bool {
	if min(total.MilliCPU, total.Memory, total.EphemeralStorage, total.Pods) < 0 {
		return false
	}
	if v.MilliCPU > total.MilliCPU || v.Memory > total.Memory || v.EphemeralStorage > total.EphemeralStorage || v.Pods > total.Pods {
		return false
	}
	for _, t := range total.Extended {
		if t.Value < 0 {
			return false
		}
	}
	for _, r := range v.Extended {
		if r.Value > total.Get(r.Name) {
			return false
		}
	}
	return true
}

// Filled is v with the amounts that are zero or missing replaced by the estimate's.
func (v Vector) Filled(estimate Vector) Vector {
	for _, name := range estimate.Names() {
		if v.Get(name) == 0 {
			v.Set(name, estimate.Get(name))
		}
	}
	return v
}

// FloorZero returns v with negative amounts replaced by 0.
func (v Vector) FloorZero() Vector { return v.Max(Vector{}) }

// Equal reports that both are the same amounts.
func (v Vector) Equal(o Vector) bool {
	return v.MilliCPU == o.MilliCPU && v.Memory == o.Memory && v.EphemeralStorage == o.EphemeralStorage && v.Pods == o.Pods &&
		slices.Equal(v.Extended, o.Extended)
}

// IsZero reports that all amounts of v are zero.
func (v Vector) IsZero() bool {
	return v.MilliCPU == 0 && v.Memory == 0 && v.EphemeralStorage == 0 && v.Pods == 0 && len(v.Extended) == 0
}

// List converts back to a ResourceList without zero amounts.
func (v Vector) List() corev1.ResourceList {
	list := corev1.ResourceList{}
	put := func(name corev1.ResourceName, q *resource.Quantity) {
		if !q.IsZero() {
			list[name] = *q
		}
	}
	put(CPU, resource.NewMilliQuantity(v.MilliCPU, resource.DecimalSI))
	put(Memory, resource.NewQuantity(v.Memory, resource.BinarySI))
	put(EphemeralStorage, resource.NewQuantity(v.EphemeralStorage, resource.BinarySI))
	put(Pods, resource.NewQuantity(v.Pods, resource.DecimalSI))
	for _, a := range v.Extended {
		put(a.Name, resource.NewQuantity(a.Value, resource.DecimalSI))
	}
	return list
}

// Names returns the resources with a non-zero amount, sorted.
func (v Vector) Names() []corev1.ResourceName {
	var names []corev1.ResourceName
	for _, n := range []corev1.ResourceName{CPU, EphemeralStorage, Memory, Pods} {
		if v.Get(n) != 0 {
			names = append(names, n)
		}
	}
	for _, a := range v.Extended {
		names = append(names, a.Name)
	}
	slices.Sort(names)
	return names
}
