package requirement

import (
	"testing"

	corev1 "k8s.io/api/core/v1"

	karpv1 "millwright/api/karpenter/v1"
)

// The rules: scheduling §5.
func TestText(t *testing.T) {
	for name, c := range map[string]struct {
		r    Requirement
		want string
	}{
		"values are sorted":             {In("k", "b", "a", "b"), "k In [a b]"},
		"after five comes a count":      {New("k", "NotIn", "1", "2", "3", "4", "5", "6", "7"), "k NotIn [1 2 3 4 5 and 2 others]"},
		"exists":                        {Exists("k"), "k Exists"},
		"in nothing is does-not-exist":  {In("k"), "k DoesNotExist"},
		"Gt is an inclusive bound":      {New("k", "Gt", "3"), "k Exists >=4"},
		"Lt too":                        {New("k", "Lt", "3"), "k Exists <=2"},
		"both bounds and an exclusion":  {New("k", OpGte, "3").Intersection(New("k", OpLte, "9")).Intersection(New("k", "NotIn", "5", "20")), "k NotIn [5] >=3 <=9"},
		"concrete values drop bounds":   {New("k", "Gt", "3").Intersection(In("k", "1", "5", "x")), "k In [5]"},
		"contradicting bounds":          {New("k", "Gt", "3").Intersection(New("k", "Lt", "4")), "k DoesNotExist"},
		"minValues comes last":          {In("k", "a", "b").WithMinValues(2), "k In [a b] minValues 2"},
		"older names are replaced":      {In("beta.kubernetes.io/arch", "amd64"), "kubernetes.io/arch In [amd64]"},
		"a bad operand allows nothing":  {New("k", "Gt", "x"), "k DoesNotExist"},
		"greater than the greatest int": {New("k", "Gt", "9223372036854775807"), "k DoesNotExist"},
	} {
		t.Run(name, func(t *testing.T) {
			if got := c.r.String(); got != c.want {
				t.Errorf("got %q, want %q", got, c.want)
			}
		})
	}
}

// The rules: scheduling §5.
func TestSetTextLeavesTheHostnameOut(t *testing.T) {
	s := NewSet(In("z", "1"), In(corev1.LabelHostname, "hostname-placeholder-0001"), Exists("a"))
	if got, want := s.String(), "a Exists, z In [1]"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

// The rules: scheduling §5.
func TestIncompatibilityIsNamed(t *testing.T) {
	for name, c := range map[string]struct {
		have, want Set
		known      WellKnown
		err        string
	}{
		"incoming not in existing": {NewSet(In("k", "a")), NewSet(In("k", "b")), nil, "key k, k In [b] not in k In [a]"},
		"undefined": {Set{}, NewSet(In("team", "b")), AllKnown,
			`label "team" does not have known values`},
		"undefined with a hint from the name part": {Set{}, NewSet(In("karpenter.sh/zone", "b")), AllKnown,
			`label "karpenter.sh/zone" does not have known values (typo of "topology.kubernetes.io/zone"?)`},
		"undefined with a hint from a part of a key": {NewSet(In("example.com/team", "a")), NewSet(In("example.com/tea", "b")), nil,
			`label "example.com/tea" does not have known values (typo of "example.com/team"?)`},
		"several errors are joined": {NewSet(In("a", "1"), In("b", "1")), NewSet(In("a", "2"), In("b", "2"), Exists("c")), nil,
			`label "c" does not have known values; key a, a In [2] not in a In [1]; key b, b In [2] not in b In [1]`},
		"well-known keys may be undefined for templates": {Set{}, NewSet(In(corev1.LabelTopologyZone, "b")), AllKnown, ""},
		"but not for nodes":                                {Set{}, NewSet(In(corev1.LabelTopologyZone, "b")), NoneKnown, `label "topology.kubernetes.io/zone" does not have known values`},
		"what must not exist may be undefined":             {Set{}, NewSet(DoesNotExist("k"), New("l", "NotIn", "x")), NoneKnown, ""},
		"NotIn and DoesNotExist meet on the missing label": {NewSet(DoesNotExist("k")), NewSet(New("k", "NotIn", "x")), NoneKnown, ""},
	} {
		t.Run(name, func(t *testing.T) {
			got := ""
			if err := c.have.Compatible(c.want, c.known); err != nil {
				got = err.Error()
			}
			if got != c.err {
				t.Errorf("got  %s\nwant %s", got, c.err)
			}
		})
	}
}

// The rules: scheduling §2.2.
func TestRestrictedKeys(t *testing.T) {
	for key, want := range map[string]bool{
		"kubernetes.io/hostname":              true,
		"karpenter.sh/registered":             true,
		"karpenter.sh/nodepool":               false,
		"karpenter.sh/capacity-type":          false,
		"karpenter.k8s.aws/instance-cpu":      false,
		"karpenter.k8s.aws/ec2nodeclass":      true,
		"sub.karpenter.sh/x":                  true,
		"my-karpenter.sh/x":                   false,
		"karpenter.sh":                        false,
		"kubernetes.io/anything":              false,
		"beta.kubernetes.io/arch":             false,
		"example.com/team":                    false,
		"topology.k8s.aws/zone-id":            false,
		"node-restriction.kubernetes.io/pool": false,
	} {
		if got := Restricted(key); got != want {
			t.Errorf("%s: got %v", key, got)
		}
	}
}

// The rules: api §1.6.
func TestValidate(t *testing.T) {
	two := 2
	for name, c := range map[string]struct {
		r    karpv1.NodeSelectorRequirementWithMinValues
		want string
	}{
		"fine":                {karpv1.NodeSelectorRequirementWithMinValues{Key: "a", Operator: "In", Values: []string{"x"}}, ""},
		"zero is an operand":  {karpv1.NodeSelectorRequirementWithMinValues{Key: "a", Operator: "Gt", Values: []string{"0"}}, ""},
		"a word is not":       {karpv1.NodeSelectorRequirementWithMinValues{Key: "a", Operator: "Gt", Values: []string{"x"}}, "key a with operator Gt must have a single positive integer value"},
		"unknown operator":    {karpv1.NodeSelectorRequirementWithMinValues{Key: "a", Operator: "Is"}, "key a has an unsupported operator Is not in [DoesNotExist Exists Gt Gte In Lt Lte NotIn]"},
		"In needs a value":    {karpv1.NodeSelectorRequirementWithMinValues{Key: "a", Operator: "In"}, "key a with operator In must have a value defined"},
		"too few for minimum": {karpv1.NodeSelectorRequirementWithMinValues{Key: "a", Operator: "In", Values: []string{"x", "x"}, MinValues: &two}, "key a with operator In must have at least minimum number of values defined in 'values' field"},
		"capacity types":      {karpv1.NodeSelectorRequirementWithMinValues{Key: karpv1.CapacityTypeLabelKey, Operator: "In", Values: []string{"Spot"}}, "no valid values found in [Spot] for karpenter.sh/capacity-type, expected one of: [on-demand reserved spot]"},
	} {
		t.Run(name, func(t *testing.T) {
			got := ""
			if err := Validate(c.r); err != nil {
				got = err.Error()
			}
			if got != c.want {
				t.Errorf("got  %s\nwant %s", got, c.want)
			}
		})
	}
}

// The rules: scheduling §2.2.
func TestValidatePodRefusesOurNodesBeforeAnythingElse(t *testing.T) {
	spec := &corev1.PodSpec{NodeSelector: map[string]string{"karpenter.sh/x": "y"}}
	if err := ValidatePod(spec); err == nil || err == ErrNotOurs {
		t.Errorf("restricted nodeSelector: %v", err)
	}
	spec.Affinity = &corev1.Affinity{NodeAffinity: &corev1.NodeAffinity{RequiredDuringSchedulingIgnoredDuringExecution: &corev1.NodeSelector{
		NodeSelectorTerms: []corev1.NodeSelectorTerm{{MatchExpressions: []corev1.NodeSelectorRequirement{{Key: karpv1.NodePoolLabelKey, Operator: "DoesNotExist"}}}},
	}}}
	if err := ValidatePod(spec); err != ErrNotOurs {
		t.Errorf("got %v", err)
	}
}
