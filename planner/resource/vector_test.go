package resource

import (
	"math"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"pgregory.net/rapid"
)

var names = []corev1.ResourceName{CPU, Memory, EphemeralStorage, Pods, "nvidia.com/gpu", "example.com/x"}

func vectors() *rapid.Generator[map[corev1.ResourceName]int64] {
	return rapid.MapOfN(rapid.SampledFrom(names), rapid.Int64Range(-3, 5), 0, len(names))
}

func build(m map[corev1.ResourceName]int64) Vector {
	var v Vector
	for _, n := range names {
		if x, ok := m[n]; ok {
			v.Set(n, x)
		}
	}
	return v
}

func TestArithmeticAgreesWithMaps(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		a, b := vectors().Draw(t, "a"), vectors().Draw(t, "b")
		va, vb := build(a), build(b)
		fits := true
		for _, n := range names {
			if va.Add(vb).Get(n) != a[n]+b[n] || va.Sub(vb).Get(n) != a[n]-b[n] || va.Max(vb).Get(n) != max(a[n], b[n]) || va.Min(vb).Get(n) != min(a[n], b[n]) {
				t.Fatalf("%s of %v and %v", n, a, b)
			}
			fits = fits && b[n] >= 0 && a[n] <= b[n]
		}
		if va.Fits(vb) != fits {
			t.Fatalf("%v fits %v: %v", a, b, va.Fits(vb))
		}
		if back := va.Add(vb).Sub(vb); !back.Sub(va).IsZero() {
			t.Fatalf("%v + %v - %v = %v", a, b, b, back)
		}
		for _, n := range names {
			if va.Get(n) != a[n] || vb.Get(n) != b[n] {
				t.Fatal("an operand was changed")
			}
		}
	})
}

func TestConversion(t *testing.T) {
	list := corev1.ResourceList{CPU: resource.MustParse("1500m"), Memory: resource.MustParse("1Gi"), "nvidia.com/gpu": resource.MustParse("2"), Pods: resource.MustParse("0")}
	v := From(list)
	if v.MilliCPU != 1500 || v.Memory != 1<<30 || v.Get("nvidia.com/gpu") != 2 || v.Pods != 0 {
		t.Errorf("got %+v", v)
	}
	back := v.List()
	if len(back) != 3 || back.Cpu().Cmp(resource.MustParse("1500m")) != 0 {
		t.Errorf("got %v", back)
	}
	if up := From(corev1.ResourceList{CPU: resource.MustParse("1u"), Memory: resource.MustParse("1m")}); up.MilliCPU != 1 || up.Memory != 1 {
		t.Errorf("amounts are not rounded up: %+v", up)
	}
}

func TestSumsSaturate(t *testing.T) {
	v := Vector{Memory: math.MaxInt64}
	if v.Add(Vector{Memory: 1}).Memory != math.MaxInt64 {
		t.Error("overflow")
	}
}

// TestAmountsAreBounded: a Quantity beyond int64 is as good as infinite, and sums of such ones do not wrap.
func TestAmountsAreBounded(t *testing.T) {
	for text, want := range map[string]struct{ cpu, memory int64 }{
		"1500m": {1500, 2}, "0": {0, 0}, "-1": {-1000, -1}, "1P": {1_000_000_000_000_000_000, 1_000_000_000_000_000},
		"1Ei": {AmountMax, AmountMax}, "10P": {AmountMax, 10_000_000_000_000_000}, "10E": {AmountMax, AmountMax}, "16Ei": {AmountMax, AmountMax},
		"100000000000000000000": {AmountMax, AmountMax}, "9223372036854775807": {AmountMax, AmountMax}, "-10E": {-AmountMax, -AmountMax},
	} {
		q := resource.MustParse(text)
		if got := AmountOf(CPU, q); got != want.cpu {
			t.Errorf("%s of CPU are %d, want %d", text, got, want.cpu)
		}
		if got := AmountOf(Memory, q); got != want.memory {
			t.Errorf("%s of memory are %d, want %d", text, got, want.memory)
		}
	}
	for _, x := range [][3]int64{{1, 2, 3}, {math.MaxInt64, 1, math.MaxInt64}, {-AmountMax, AmountMax, 0}, {math.MinInt64, -1, math.MinInt64}, {-5, 3, -2}} {
		if got := AddSaturated(x[0], x[1]); got != x[2] {
			t.Errorf("%d + %d is %d, want %d", x[0], x[1], got, x[2])
		}
	}
}
