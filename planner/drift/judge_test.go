package drift_test

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"pgregory.net/rapid"

	karpv1 "millwright/api/karpenter/v1"
	"millwright/planner/cadence"
	"millwright/planner/drift"
	"millwright/planner/nodepool"
	"millwright/planner/requirement"
)

var noon = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

func entry(key string, op corev1.NodeSelectorOperator, values ...string) karpv1.NodeSelectorRequirementWithMinValues {
	return karpv1.NodeSelectorRequirementWithMinValues{Key: key, Operator: op, Values: values}
}

func arch(value string) []corev1.NodeSelectorRequirement {
	return []corev1.NodeSelectorRequirement{{Key: corev1.LabelArchStable, Operator: corev1.NodeSelectorOpIn, Values: []string{value}}}
}

// grouped gives the claim a placement group, and the class another.
func grouped(have string, of drift.Class) func(*drift.Input) {
	return func(in *drift.Input) {
		if have != "" {
			in.Claims[0].Labels["karpenter.k8s.aws/placement-group-id"] = have
		}
		in.Classes[0].Grouped, in.Classes[0].GroupID = of.Grouped, of.GroupID
	}
}

// input is about one claim that is as it would be made now; tests change it.
func input() drift.Input {
	const hash = "7"
	return drift.Input{
		Now: noon,
		Claims: []drift.Claim{{
			Name: "default-a", UID: "u", NodePool: "default", NodeClass: "main", Launched: true, CreatedAt: noon.Add(-2 * time.Hour),
			Labels: map[string]string{
				corev1.LabelInstanceTypeStable: "m1.large", corev1.LabelTopologyZone: "eu-1a", karpv1.CapacityTypeLabelKey: "on-demand", "team": "blue",
			},
			PoolHash: drift.Hash{Version: nodepool.HashVersion, Value: hash}, ClassHash: drift.Hash{Version: "v5", Value: hash},
			ImageID: "ami-1", Placement: &drift.Placement{ImageID: "ami-1", SubnetID: "subnet-a", SecurityGroupIDs: []string{"sg-a", "sg-b"}},
		}},
		Pools: []drift.Pool{{
			Name: "default", HashVersion: nodepool.HashVersion,
			Hashes:       []drift.Hashes{{Version: nodepool.HashVersion, Values: []string{hash, "8"}}, {Version: "mw1", Values: []string{"9"}}},
			Requirements: []karpv1.NodeSelectorRequirementWithMinValues{entry("team", corev1.NodeSelectorOpIn, "blue")},
		}},
		Classes: []drift.Class{{
			Name: "main", Hashes: drift.Hashes{Version: "v5", Values: []string{hash}}, Current: true, Offered: true,
			Images:    []drift.Image{{ID: "ami-arm", Requirements: arch("arm64")}, {ID: "ami-1", Requirements: arch("amd64")}, {ID: "ami-0", Requirements: arch("amd64")}},
			SubnetIDs: []string{"subnet-a", "subnet-b"}, SecurityGroupIDs: []string{"sg-b", "sg-a"},
			Types: []drift.Type{{
				Name: "m1.large", Offerings: []drift.Offering{{Zone: "eu-1a", CapacityType: "on-demand"}, {Zone: "eu-1b", CapacityType: "spot"}},
				Requirements: []karpv1.NodeSelectorRequirementWithMinValues{
					entry(corev1.LabelArchStable, corev1.NodeSelectorOpIn, "amd64"), entry("size", corev1.NodeSelectorOpIn, "large"),
					entry("gpu", corev1.NodeSelectorOpDoesNotExist),
				},
			}},
		}},
	}
}

// TestJudge cites disruption §7, whose checks these are, in their order.
func TestJudge(t *testing.T) {
	claim := func(change func(*drift.Claim)) func(*drift.Input) {
		return func(in *drift.Input) { change(&in.Claims[0]) }
	}
	class := func(change func(*drift.Class)) func(*drift.Input) {
		return func(in *drift.Input) { change(&in.Classes[0]) }
	}
	pool := func(change func(*drift.Pool)) func(*drift.Input) {
		return func(in *drift.Input) { change(&in.Pools[0]) }
	}
	require := func(list ...karpv1.NodeSelectorRequirementWithMinValues) func(*drift.Input) {
		return pool(func(p *drift.Pool) { p.Requirements = list })
	}
	classHashes := func(ofClaim, ofClass drift.Hash, values ...string) func(*drift.Input) {
		return func(in *drift.Input) {
			in.Claims[0].ClassHash, in.Classes[0].Hashes = ofClaim, drift.Hashes{Version: ofClass.Version, Values: values}
		}
	}
	reserved := func(placement string, of *drift.Reservations) func(*drift.Input) {
		return func(in *drift.Input) {
			in.Claims[0].Labels["karpenter.k8s.aws/capacity-reservation-id"] = "cr-1"
			in.Claims[0].Labels[karpv1.CapacityTypeLabelKey] = "reserved"
			in.Claims[0].Placement.ReservationID, in.Classes[0].Reservations = placement, of
		}
	}
	const stays = "?"
	for name, c := range map[string]struct {
		change func(*drift.Input)
		// want is the reason, names what the detail mentions; stays means that not all comparisons could be
		// made.
		want, names string
	}{
		"as it would be made now": {func(*drift.Input) {}, "", ""},
		"not launched, whatever differs": {func(in *drift.Input) {
			in.Claims[0].Launched, in.Claims[0].PoolHash.Value, in.Classes[0].Current = false, "1", false
		}, "", ""},
		"a NodePool that is not there": {func(in *drift.Input) { in.Pools = nil }, stays, ""},

		"another hash of the template":                        {claim(func(c *drift.Claim) { c.PoolHash.Value = "1" }), drift.ReasonNodePool, "hash 1 (v3), that of NodePool default is 7"},
		"a hash in sync with a template that has empty lists": {claim(func(c *drift.Claim) { c.PoolHash.Value = "8" }), "", ""},
		"no hash of the template":                             {claim(func(c *drift.Claim) { c.PoolHash.Value = "" }), "", ""},
		"a NodePool that is not stamped yet":                  {func(in *drift.Input) { in.Pools[0].HashVersion, in.Claims[0].PoolHash.Value = "v2", "1" }, "", ""},
		"a claim of a version that is not computed":           {claim(func(c *drift.Claim) { c.PoolHash = drift.Hash{Version: "v2", Value: "1"} }), "", ""},
		"a claim of a version that is only read":              {claim(func(c *drift.Claim) { c.PoolHash = drift.Hash{Version: "mw1", Value: "1"} }), drift.ReasonNodePool, "hash 1 (mw1)"},
		"a claim of that version in sync":                     {claim(func(c *drift.Claim) { c.PoolHash = drift.Hash{Version: "mw1", Value: "9"} }), "", ""},

		"a requirement the labels do not meet":              {require(entry("team", corev1.NodeSelectorOpIn, "red")), drift.ReasonRequirements, `label team="blue", NodePool default requires team In [red]`},
		"a requirement on a label that is nowhere":          {require(entry("squad", corev1.NodeSelectorOpExists)), drift.ReasonRequirements, "squad"},
		"a requirement on a label that the type would give": {require(entry("size", corev1.NodeSelectorOpIn, "large")), "", ""},
		"that label otherwise":                              {require(entry("size", corev1.NodeSelectorOpIn, "small")), drift.ReasonRequirements, "size"},
		"a label of the claim's own before the type's": {func(in *drift.Input) {
			in.Claims[0].Labels["size"] = "small"
			require(entry("size", corev1.NodeSelectorOpIn, "large"))(in)
		}, drift.ReasonRequirements, "size"},
		"a negative requirement on a missing label": {require(entry("squad", corev1.NodeSelectorOpNotIn, "red"), entry("rank", corev1.NodeSelectorOpDoesNotExist)), "", ""},
		"requirements that cannot be read":          {require(entry("team", "Sometimes")), stays, ""},
		"a type label without a class":              {func(in *drift.Input) { in.Classes = nil; require(entry("size", corev1.NodeSelectorOpIn, "large"))(in) }, drift.ReasonRequirements, "size"},

		"a type that is not offered":                  {class(func(c *drift.Class) { c.Types = nil }), drift.ReasonInstanceType, "EC2 offers no on-demand m1.large in eu-1a"},
		"a type offered elsewhere":                    {class(func(c *drift.Class) { c.Types[0].Offerings = c.Types[0].Offerings[1:] }), drift.ReasonInstanceType, ""},
		"a reservation that has ended":                {claim(func(c *drift.Claim) { c.Labels[karpv1.CapacityTypeLabelKey] = "reserved" }), "", ""},
		"a type that is not offered to a young claim": {func(in *drift.Input) { in.Classes[0].Types = nil; in.Claims[0].CreatedAt = noon.Add(-time.Hour) }, stays, ""},
		"a catalogue that is not known":               {class(func(c *drift.Class) { c.Offered, c.Types = false, nil }), stays, ""},

		"another hash of the class":                 {claim(func(c *drift.Claim) { c.ClassHash.Value = "1" }), drift.ReasonNodeClass, "hash 1 (v5), that of EC2NodeClass main is 7"},
		"both of a version that cannot be computed": {classHashes(drift.Hash{Version: "v3", Value: "1"}, drift.Hash{Version: "v3"}), "", ""},
		"the class is stamped, the claim is not":    {classHashes(drift.Hash{Version: "v3", Value: "1"}, drift.Hash{Version: "v5"}, "7"), "", ""},
		"the claim is stamped, the class is not":    {classHashes(drift.Hash{Version: "v5", Value: "1"}, drift.Hash{Version: "v3"}), "", ""},
		"no annotations":                            {classHashes(drift.Hash{}, drift.Hash{}), "", ""},
		"one of several CA bundles":                 {classHashes(drift.Hash{Version: "v5", Value: "8"}, drift.Hash{Version: "v5"}, "7", "8"), "", ""},
		"a class that cannot be read":               {class(func(c *drift.Class) { *c = drift.Class{Name: "main", Unreadable: true, Offered: true, Types: c.Types} }), stays, ""},
		"a class that is not there": {func(in *drift.Input) {
			in.Classes, in.Claims[0].ClassHash.Value, in.Claims[0].ImageID = nil, "1", "ami-9"
		}, "", ""},

		"a newer image":                                  {class(func(c *drift.Class) { c.Images[1].ID = "ami-2" }), drift.ReasonImage, "image ami-1, that of EC2NodeClass main for m1.large is ami-2"},
		"an image that is still selected":                {claim(func(c *drift.Claim) { c.ImageID = "ami-0" }), drift.ReasonImage, "ami-0"},
		"an image for others":                            {class(func(c *drift.Class) { c.Images[0].ID = "ami-2" }), "", ""},
		"the image that EC2 says":                        {claim(func(c *drift.Claim) { c.ImageID, c.Placement.ImageID = "", "ami-0" }), drift.ReasonImage, ""},
		"no image for the type":                          {class(func(c *drift.Class) { c.Images = c.Images[:1] }), stays, ""},
		"an image that nobody knows":                     {claim(func(c *drift.Claim) { c.ImageID, c.Placement.ImageID = "", "" }), stays, ""},
		"a status of an old spec":                        {class(func(c *drift.Class) { c.Current, c.Images[1].ID = false, "ami-2" }), stays, ""},
		"a security group more":                          {class(func(c *drift.Class) { c.SecurityGroupIDs = append(c.SecurityGroupIDs, "sg-c") }), drift.ReasonSecurityGroup, "[sg-a sg-b], those of EC2NodeClass main are [sg-a sg-b sg-c]"},
		"a security group less":                          {class(func(c *drift.Class) { c.SecurityGroupIDs = []string{"sg-a"} }), drift.ReasonSecurityGroup, ""},
		"a security group named twice":                   {class(func(c *drift.Class) { c.SecurityGroupIDs = append(c.SecurityGroupIDs, "sg-a") }), "", ""},
		"no security group":                              {class(func(c *drift.Class) { c.SecurityGroupIDs = nil }), stays, ""},
		"another subnet":                                 {class(func(c *drift.Class) { c.SubnetIDs = []string{"subnet-b"} }), drift.ReasonSubnet, "subnet subnet-a, those of EC2NodeClass main are [subnet-b]"},
		"a reservation that the class selects":           {reserved("", &drift.Reservations{Known: true, IDs: []string{"cr-1", "cr-2"}}), "", ""},
		"a reservation that it does not select":          {reserved("cr-1", &drift.Reservations{Known: true, IDs: []string{"cr-2"}}), drift.ReasonReservation, "capacity reservation cr-1, those that EC2NodeClass main selects are [cr-2]"},
		"a reservation that may have ended":              {reserved("", &drift.Reservations{Known: true}), stays, ""},
		"a reservation, and the class's are not known":   {reserved("cr-1", &drift.Reservations{}), stays, ""},
		"a reservation, recorded before it was compared": {reserved("", nil), "", ""},
		"a reservation that has made its node on-demand": {func(in *drift.Input) {
			reserved("cr-1", &drift.Reservations{Known: true})(in)
			in.Claims[0].Labels[karpv1.CapacityTypeLabelKey] = "on-demand"
		}, "", ""},

		"another placement group":                {grouped("pg-1", drift.Class{Grouped: true, GroupID: "pg-2"}), drift.ReasonGroup, `placement group "pg-1", that of EC2NodeClass main is "pg-2"`},
		"the same placement group":               {grouped("pg-1", drift.Class{Grouped: true, GroupID: "pg-1"}), "", ""},
		"no placement group":                     {grouped("", drift.Class{Grouped: true, GroupID: "pg-1"}), drift.ReasonGroup, ""},
		"a placement group that none has":        {grouped("pg-1", drift.Class{}), drift.ReasonGroup, ""},
		"a placement group that is not known":    {grouped("pg-1", drift.Class{Grouped: true}), stays, ""},
		"no subnet":                              {class(func(c *drift.Class) { c.SubnetIDs = nil }), stays, ""},
		"an instance that EC2 has not listed":    {claim(func(c *drift.Claim) { c.Placement = nil }), stays, ""},
		"a recommendation to leave the instance": {claim(func(c *drift.Claim) { c.RebalanceRecommended = true }), drift.ReasonRebalance, "EC2 recommends"},
		"an event scheduled for the instance":    {claim(func(c *drift.Claim) { c.EventScheduled = true }), drift.ReasonEvent, "EC2 has scheduled"},
		"the first of several": {func(in *drift.Input) {
			in.Claims[0].PoolHash.Value, in.Classes[0].SubnetIDs = "1", []string{"subnet-b"}
		}, drift.ReasonNodePool, ""},
		"a hit behind what cannot be compared": {func(in *drift.Input) { in.Classes[0].Images, in.Classes[0].SubnetIDs = nil, []string{"subnet-b"} }, drift.ReasonSubnet, ""},
	} {
		t.Run(name, func(t *testing.T) {
			in := input()
			c.change(&in)
			v := drift.Judge(in)[0]
			want := drift.Verdict{Claim: "default-a", Known: c.want != stays, Reason: strings.TrimPrefix(c.want, stays), Detail: v.Detail}
			if v != want || !strings.Contains(v.Detail, c.names) || (v.Reason == "") != (v.Detail == "") {
				t.Errorf("verdict %+v, want %q that names %q", v, c.want, c.names)
			}
			replayed(t, in)
		})
	}
}

// replayed demands that what is recorded of an input gives the same verdicts when it is read back.
func replayed(t interface{ Fatalf(string, ...any) }, in drift.Input) {
	judged, why, err := drift.Record(in)
	if err != nil {
		t.Fatalf("record: %v", err)
	}
	b, err := json.Marshal(judged)
	if err != nil {
		t.Fatalf("encode: %v", err)
	}
	read := *judged
	read.Facts = nil
	if err := json.Unmarshal(b, &read); err != nil {
		t.Fatalf("decode: %v", err)
	}
	again, err := drift.Replay(&read)
	if err != nil || !slices.Equal(again.Drifted, why.Drifted) {
		t.Fatalf("replayed %v, %v; recorded %v", again, err, why)
	}
}

// Every comparison takes part, in every order of facts, and what is left out for others changes nothing.
func TestVerdictsFollowFromTheFactsOfTheClaimAlone(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		in := drift.Input{Now: noon}
		some := func(label string, values ...string) string { return rapid.SampledFrom(values).Draw(t, label) }
		for _, name := range []string{"p", "q"} {
			in.Pools = append(in.Pools, drift.Pool{Name: name, HashVersion: nodepool.HashVersion,
				Hashes:       []drift.Hashes{{Version: nodepool.HashVersion, Values: []string{some("pool hash", "1", "2")}}},
				Requirements: []karpv1.NodeSelectorRequirementWithMinValues{entry("team", corev1.NodeSelectorOperator(some("operator", "In", "NotIn", "Odd")), some("team", "a", "b"))}})
		}
		for _, name := range []string{"c", "d"} {
			c := drift.Class{Name: name, Hashes: drift.Hashes{Version: "v5", Values: []string{some("class hash", "1", "2")}}, Current: rapid.Bool().Draw(t, "current"),
				Images:    []drift.Image{{ID: some("image", "i", "j"), Requirements: arch("amd64")}},
				SubnetIDs: []string{some("subnet", "s", "t")}, SecurityGroupIDs: []string{some("group", "g", "h")}, Offered: rapid.Bool().Draw(t, "offered")}
			if c.Offered {
				impossible := requirement.NewSet(requirement.New("broken", "Gt", "x"), requirement.In(corev1.LabelArchStable, "amd64"))
				c.Types = []drift.Type{{Name: "x1", Requirements: impossible.ExactEntries(), Offerings: []drift.Offering{{Zone: some("zone", "z", "y"), CapacityType: "spot"}}}}
			}
			in.Classes = append(in.Classes, c)
		}
		for _, name := range []string{"a", "b", "e", "f"} {
			in.Claims = append(in.Claims, drift.Claim{
				Name: name, NodePool: some("of pool", "p", "q"), NodeClass: some("of class", "c", "d", "gone"), Launched: rapid.Bool().Draw(t, "launched"),
				CreatedAt: noon.Add(-time.Duration(rapid.IntRange(0, 7200).Draw(t, "age")) * time.Second),
				Labels:    map[string]string{corev1.LabelInstanceTypeStable: some("type", "x1", "x2"), corev1.LabelTopologyZone: "z", karpv1.CapacityTypeLabelKey: "spot", "team": some("label", "a", "b")},
				PoolHash:  drift.Hash{Version: nodepool.HashVersion, Value: some("hash", "1", "2")}, ClassHash: drift.Hash{Version: "v5", Value: some("hash", "1", "2")},
				Placement: &drift.Placement{ImageID: some("image", "i", "j"), SubnetID: some("subnet", "s", "t"), SecurityGroupIDs: []string{some("group", "g", "h")}},
			})
		}
		all := drift.Judge(in)
		replayed(t, in)
		for i, c := range in.Claims {
			if alone := drift.Judge(in.Of(c.Name)); len(alone) != 1 || alone[0] != all[i] {
				t.Fatalf("alone %+v, with others %+v", alone, all[i])
			}
		}
		pair := in.Of("b", "f")
		replayed(t, pair)
		if len(pair.Claims) != 2 || len(pair.Pools) > 2 || slices.ContainsFunc(pair.Classes, func(c drift.Class) bool {
			return c.Name != pair.Claims[0].NodeClass && c.Name != pair.Claims[1].NodeClass
		}) {
			t.Fatalf("of two claims: %+v", pair)
		}
	})
}

func TestAnotherVerdictIsADivergence(t *testing.T) {
	in := input()
	in.Classes[0].SubnetIDs = []string{"subnet-b"}
	judged, why, err := drift.Record(in)
	if err != nil || len(judged.Claims) != 1 || judged.Claims[0].Reason != drift.ReasonSubnet || len(why.Drifted) != 1 {
		t.Fatalf("recorded %+v, %+v, %v", judged, why, err)
	}
	for name, change := range map[string]func(){
		"another reason":   func() { judged.Claims[0].Reason = drift.ReasonImage },
		"no drift":         func() { judged.Claims[0].Reason = "" },
		"another claim":    func() { judged.Claims[0].Claim = "default-b" },
		"other facts":      func() { judged.Facts = []byte(strings.ReplaceAll(string(judged.Facts), "subnet-b", "subnet-a")) },
		"facts of nothing": func() { judged.Facts = []byte("null") },
	} {
		was := *judged
		was.Claims = slices.Clone(judged.Claims)
		change()
		if _, err := drift.Replay(judged); err == nil {
			t.Errorf("%s: replays", name)
		}
		*judged = was
	}
}

// Roll-outs go by the reasons that are about all nodes of a NodePool (disruption §4.1, "Pay-back").
func TestReasonsOfRollOuts(t *testing.T) {
	for reason, rollout := range map[string]bool{
		drift.ReasonNodePool: true, drift.ReasonRequirements: true, drift.ReasonNodeClass: true, drift.ReasonImage: true,
		drift.ReasonSecurityGroup: true, drift.ReasonSubnet: true, drift.ReasonGroup: true,
		drift.ReasonInstanceType: false, drift.ReasonReservation: false, drift.ReasonEvent: false, drift.ReasonRebalance: false,
	} {
		if cadence.IsOfRollout(reason) != rollout {
			t.Errorf("%s: want %t", reason, rollout)
		}
	}
}
