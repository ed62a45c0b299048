package launch

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"pgregory.net/rapid"

	karpv1 "millwright/api/karpenter/v1"
	awsv1 "millwright/api/karpenteraws/v1"
	"millwright/planner/ledger"
	"millwright/services/internal/ec2"
)

// texts renders a selection as "type: zones".
func texts(s Selection) []string {
	out := []string{s.CapacityType}
	for _, c := range s.Candidates {
		var zones []string
		for _, o := range c.Offerings {
			zones = append(zones, strings.TrimPrefix(o.Zone, "eu-west-1"))
		}
		text := fmt.Sprintf("%s: %s", c.Type.Name, strings.Join(zones, ""))
		if id := c.Offerings[0].ReservationID; id != "" && id != "cr-1" {
			text += " in " + id
		}
		out = append(out, text)
	}
	return out
}

func TestSelect(t *testing.T) {
	both := capacityTypes("spot", "on-demand")
	many := func(n int) []kind {
		var kinds []kind
		for i := range n {
			kinds = append(kinds, kind{name: fmt.Sprintf("x%d.large", i), price: int64(1000 - i), cpu: 2, pods: 29})
		}
		return kinds
	}
	cases := map[string]struct {
		in    func() Input
		want  []string
		class ec2.Class
		text  string
	}{
		"spot before on-demand, cheapest first, zones with a subnet only": {
			in:   func() Input { return input(readyClass("AL2023"), claim(both), m5large, m5xlarge, c5large) },
			want: []string{"spot", "c5.large: ab", "m5.large: ab", "m5.xlarge: ab"},
		},
		"on-demand if the claim says so": {
			in:   func() Input { return input(readyClass("AL2023"), claim(capacityTypes("on-demand")), m5large, c5large) },
			want: []string{"on-demand", "c5.large: ab", "m5.large: ab"},
		},
		"the NodeClass that every planned claim names is no constraint": {
			in: func() Input {
				return input(readyClass("AL2023"), claim(both, []string{awsv1.LabelEC2NodeClass, "blue"}), m5large)
			},
			want: []string{"spot", "m5.large: ab"},
		},
		"on-demand if no spot is left": {
			in: func() Input {
				in := input(readyClass("AL2023"), claim(both), m5large)
				in.Unavailable = Marks(in.Types, func(k ledger.OfferingKey) bool { return k.CapacityType == "spot" })
				return in
			},
			want: []string{"on-demand", "m5.large: ab"},
		},
		"reserved before spot, and only that": {
			in: func() Input {
				in := input(readyClass("AL2023"), claim(), m5large, held(c5large, "eu-west-1a", "cr-1"))
				in.FreeReserved = map[string]int64{"cr-1": 1}
				return in
			},
			want: []string{"reserved", "c5.large: a"},
		},
		"spot if what is reserved is not free": {
			in: func() Input {
				in := input(readyClass("AL2023"), claim(), m5large, held(c5large, "eu-west-1a", "cr-1"))
				in.FreeReserved = map[string]int64{"cr-1": 0}
				return in
			},
			want: []string{"spot", "c5.large: ab", "m5.large: ab"},
		},
		"of several reservations of a type and zone the one with most free": {
			in: func() Input {
				in := input(readyClass("AL2023"), claim(), held(c5large, "eu-west-1a", "cr-1", "cr-2", "cr-3"), held(m5large, "eu-west-1b", "cr-4"))
				in.FreeReserved = map[string]int64{"cr-1": 1, "cr-2": 3, "cr-3": 3, "cr-4": 1}
				return in
			},
			want: []string{"reserved", "c5.large: a in cr-2", "m5.large: b in cr-4"},
		},
		"of capacity blocks the cheapest, and no other": {
			in: func() Input {
				in := input(readyClass("AL2023"), claim(), inBlocks(held(c5large, "eu-west-1a", "cr-1", "cr-2")), inBlocks(held(m5large, "eu-west-1b", "cr-3")))
				in.FreeReserved = map[string]int64{"cr-1": 1, "cr-2": 5, "cr-3": 5}
				return in
			},
			want: []string{"reserved", "c5.large: a"},
		},
		"at one price a plain reservation before a block": {
			in: func() Input {
				dear := m5large
				dear.name, dear.price = "m6.large", m5large.price
				in := input(readyClass("AL2023"), claim(), inBlocks(held(m5large, "eu-west-1a", "cr-1")), held(dear, "eu-west-1a", "cr-2"))
				in.FreeReserved = map[string]int64{"cr-1": 5, "cr-2": 1}
				return in
			},
			want: []string{"reserved", "m6.large: a in cr-2"},
		},
		"interruptible reservations not with plain ones": {
			in: func() Input {
				in := input(readyClass("AL2023"), claim(), interruptible(held(c5large, "eu-west-1a", "cr-1")), held(m5large, "eu-west-1a", "cr-2"))
				in.FreeReserved = map[string]int64{"cr-1": 1, "cr-2": 1}
				return in
			},
			want: []string{"reserved", "c5.large: a"},
		},
		"a reserved accelerator is no surprise": {
			in: func() Input {
				in := input(readyClass("AL2023"), claim(), m5large, held(g5xlarge, "eu-west-1a", "cr-1"))
				in.FreeReserved = map[string]int64{"cr-1": 1}
				return in
			},
			want: []string{"reserved", "g5.xlarge: a"},
		},
		"a claim of a reservation gets nothing else": {
			in: func() Input {
				in := input(readyClass("AL2023"), claim(capacityTypes("reserved"), []string{awsv1.LabelCapacityReservationID, "cr-1"}), held(m5large, "eu-west-1a", "cr-1", "cr-2"))
				in.FreeReserved = map[string]int64{"cr-2": 5}
				return in
			},
			class: ec2.NoCapacity, text: "all requested instance types were unavailable during launch",
		},
		"minValues that reserved types do not reach are reached by others": {
			in: func() Input {
				c, two := claim([]string{corev1.LabelInstanceTypeStable, "c5.large", "m5.large"}), 2
				c.Spec.Requirements[0].MinValues = &two
				in := input(readyClass("AL2023"), c, m5large, held(c5large, "eu-west-1a", "cr-1"))
				in.FreeReserved = map[string]int64{"cr-1": 1}
				return in
			},
			want: []string{"reserved", "c5.large: a"},
		},
		"marked offerings are left out": {
			in: func() Input {
				in := input(readyClass("AL2023"), claim(both), m5large, c5large)
				in.Unavailable = Marks(in.Types, func(k ledger.OfferingKey) bool { return k.InstanceType == "c5.large" && k.Zone == "eu-west-1a" })
				return in
			},
			want: []string{"spot", "c5.large: b", "m5.large: ab"},
		},
		"nothing is left": {
			in: func() Input {
				in := input(readyClass("AL2023"), claim(both), m5large)
				in.Unavailable = Marks(in.Types, func(ledger.OfferingKey) bool { return true })
				return in
			},
			class: ec2.NoCapacity, text: "all requested instance types were unavailable during launch",
		},
		"too small types are left out": {
			in: func() Input {
				c := claim(capacityTypes("on-demand"))
				c.Spec.Resources.Requests["cpu"] = resource.MustParse("2")
				return input(readyClass("AL2023"), c, m5large, m5xlarge)
			},
			want: []string{"on-demand", "m5.xlarge: ab"},
		},
		"a zone of the claim": {
			in: func() Input {
				return input(readyClass("AL2023"), claim(both, []string{corev1.LabelTopologyZone, "eu-west-1b"}), m5large)
			},
			want: []string{"spot", "m5.large: b"},
		},
		"a zone without subnet": {
			in: func() Input {
				return input(readyClass("AL2023"), claim(both, []string{corev1.LabelTopologyZone, "eu-west-1c"}), m5large)
			},
			class: ec2.NoCapacity,
		},
		"types without an image": {
			in: func() Input {
				nc := readyClass("AL2023")
				nc.Status.AMIs = nc.Status.AMIs[:1]
				return input(nc, claim(both), m5large)
			},
			class: ec2.Permanent, text: "no instance types satisfy requirements of amis [ami-arm]",
		},
		"no exotic types unless nothing else fits": {
			in: func() Input {
				return input(readyClass("AL2023"), claim(capacityTypes("on-demand")), m5large, g5xlarge, m5metal)
			},
			want: []string{"on-demand", "m5.large: ab"},
		},
		"exotic types if asked for": {
			in: func() Input {
				c := claim(capacityTypes("on-demand"))
				c.Spec.Resources.Requests["nvidia.com/gpu"] = resource.MustParse("1")
				return input(readyClass("AL2023"), c, m5large, g5xlarge, m5metal)
			},
			want: []string{"on-demand", "g5.xlarge: ab"},
		},
		"exotic types with minValues": {
			in: func() Input {
				c := claim(capacityTypes("on-demand"))
				c.Spec.Requirements = append(c.Spec.Requirements, karpv1.NodeSelectorRequirementWithMinValues{Key: awsv1.LabelInstanceFamily, Operator: corev1.NodeSelectorOpExists, MinValues: ptr(2)})
				return input(readyClass("AL2023"), c, m5large, g5xlarge)
			},
			want: []string{"on-demand", "m5.large: ab", "g5.xlarge: ab"},
		},
		"minValues that cannot hold": {
			in: func() Input {
				c := claim(capacityTypes("on-demand"))
				c.Spec.Requirements = append(c.Spec.Requirements, karpv1.NodeSelectorRequirementWithMinValues{Key: awsv1.LabelInstanceFamily, Operator: corev1.NodeSelectorOpExists, MinValues: ptr(3)})
				return input(readyClass("AL2023"), c, m5large, m5xlarge, g5xlarge)
			},
			class: ec2.Permanent, text: "minValues of karpenter.k8s.aws/instance-family is 3, but the 3 cheapest instance types that can be launched have 2",
		},
		"contradictory requirements": {
			in: func() Input {
				return input(readyClass("AL2023"), claim(both, []string{corev1.LabelArchStable, "amd64"}, []string{corev1.LabelArchStable, "arm64"}), m5large)
			},
			class: ec2.NoCapacity,
		},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			s, err := Select(c.in())
			if c.class != "" {
				var f *ec2.Failure
				if !errors.As(err, &f) || f.Class != c.class || !strings.Contains(f.Message, c.text) {
					t.Fatalf("got %v", err)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if d := cmp.Diff(c.want, texts(s)); d != "" {
				t.Error(d)
			}
		})
	}
	s, err := Select(input(readyClass("AL2023"), claim(capacityTypes("on-demand")), many(80)...))
	if err != nil || len(s.Candidates) != 60 || s.Candidates[0].Type.Name != "x79.large" || s.Candidates[59].Type.Name != "x20.large" {
		t.Errorf("truncation: %d types, %v", len(s.Candidates), err)
	}
}

// TestDearSpot: spot dearer than the cheapest on-demand offering goes (ec2 §4.2, filter 6), if both are
// allowed.
func TestDearSpot(t *testing.T) {
	big := kind{name: "m5.8xlarge", price: 1536, cpu: 32, pods: 234}
	s, err := Select(input(readyClass("AL2023"), claim(capacityTypes("spot", "on-demand")), m5large, big))
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff([]string{"spot", "m5.large: ab"}, texts(s)); d != "" {
		t.Error(d)
	}
	s, err = Select(input(readyClass("AL2023"), claim(capacityTypes("spot")), m5large, big))
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff([]string{"spot", "m5.large: ab", "m5.8xlarge: ab"}, texts(s)); d != "" {
		t.Error("spot only: nothing to compare with:", d)
	}
}

func TestInflexibleOnDemandIsWarnedAbout(t *testing.T) {
	in := input(readyClass("AL2023"), claim(capacityTypes("spot", "on-demand")), m5large)
	in.Unavailable = Marks(in.Types, func(k ledger.OfferingKey) bool { return k.CapacityType == "spot" })
	s, err := Select(in)
	if err != nil || !strings.HasPrefix(s.Warning, "at least 5 instance types are recommended") {
		t.Errorf("%q %v", s.Warning, err)
	}
}

func TestTenancy(t *testing.T) {
	for want, requirements := range map[string][][]string{
		"default":   {capacityTypes("on-demand")},
		"dedicated": {capacityTypes("on-demand"), {awsv1.LabelInstanceTenancy, "dedicated"}},
	} {
		s, err := Select(input(readyClass("AL2023"), claim(requirements...), m5large))
		if err != nil || s.Tenancy != want {
			t.Errorf("%s: %s %v", want, s.Tenancy, err)
		}
	}
}

// TestSelectProperties: whatever the marks and the claim, a selection holds only what may be launched,
// cheapest first, and the order of the types in the catalogue does not matter.
func TestSelectProperties(t *testing.T) {
	all := []kind{m5large, c5large, m5xlarge, m6glarge, g5xlarge, m5metal}
	rapid.Check(t, func(t *rapid.T) {
		wanted := rapid.SliceOfNDistinct(rapid.SampledFrom([]string{"spot", "on-demand"}), 1, 2, rapid.ID).Draw(t, "capacity types")
		in := input(readyClass("AL2023"), claim(append([]string{karpv1.CapacityTypeLabelKey}, wanted...)), all...)
		in.Unavailable = map[ledger.OfferingKey]bool{}
		for _, ty := range in.Types {
			for _, o := range ty.Offerings {
				if rapid.Bool().Draw(t, "marked") {
					in.Unavailable[ledger.OfferingKey{InstanceType: ty.Name, Zone: o.Zone, CapacityType: o.CapacityType}] = true
				}
			}
		}
		s, err := Select(in)
		if err != nil {
			if ec2.Classify(err) != ec2.NoCapacity {
				t.Fatal(err)
			}
			return
		}
		if !slices.Contains(wanted, s.CapacityType) {
			t.Fatalf("chose %s of %v", s.CapacityType, wanted)
		}
		last := int64(0)
		for _, c := range s.Candidates {
			if c.Offerings[0].Price < last {
				t.Fatal("not by price")
			}
			last = c.Offerings[0].Price
			for _, o := range c.Offerings {
				if o.CapacityType != s.CapacityType || o.Zone == "eu-west-1c" || in.Unavailable[ledger.OfferingKey{InstanceType: c.Type.Name, Zone: o.Zone, CapacityType: o.CapacityType}] {
					t.Fatalf("%s in %s must not be launched", c.Type.Name, o.Zone)
				}
			}
		}
		slices.Reverse(in.Types)
		again, err := Select(in)
		if err != nil || fmt.Sprint(texts(again)) != fmt.Sprint(texts(s)) {
			t.Fatalf("order of types matters: %v, %v", texts(s), texts(again))
		}
	})
}
