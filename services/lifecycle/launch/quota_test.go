package launch

import (
	"fmt"
	"slices"
	"testing"

	"millwright/planner/ledger"
)

// manyKinds are 200 types of standard families, and two of another quota that cost a little more than the
// sixtieth of them.
func manyKinds() (kinds []kind) {
	for i := range 200 {
		kinds = append(kinds, kind{name: fmt.Sprintf("%s%d.large", []string{"c", "m", "r", "t"}[i%4], i+1), price: int64(100 + i), cpu: 2, pods: 29})
	}
	return append(kinds, kind{name: "x2gd.large", price: 310, cpu: 2, pods: 29}, kind{name: "x1e.large", price: 5000, cpu: 2, pods: 29})
}

// roundsUntil counts the requests, each with what the one before named marked as unavailable, until one names
// a type that is not of the standard families.
func roundsUntil(t *testing.T, in Input) (rounds int) {
	t.Helper()
	marked := map[string]bool{}
	for rounds = 1; ; rounds++ {
		in.Unavailable = Marks(in.Types, func(k ledger.OfferingKey) bool { return marked[k.InstanceType] })
		s, err := Select(in)
		if err != nil {
			t.Fatalf("round %d: %v", rounds, err)
		}
		if slices.ContainsFunc(s.Candidates, func(c Candidate) bool { return quotaOf(c.Type.Name) != "standard" }) {
			return rounds
		}
		for _, c := range s.Candidates {
			marked[c.Type.Name] = true
		}
	}
}

// Where the quota of vCPUs of the standard families is used up, the first request launches of another group;
// with the 60 cheapest types alone it would be the fourth.
func TestARequestNamesTypesOfMoreThanOneQuota(t *testing.T) {
	in := input(readyClass("AL2023"), claim(capacityTypes("on-demand")), manyKinds()...)
	if rounds := roundsUntil(t, in); rounds != 1 {
		t.Errorf("%d requests", rounds)
	}
	s, err := Select(in)
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, c := range s.Candidates {
		names = append(names, c.Type.Name)
	}
	if len(names) != typesMax || names[0] != "c1.large" || names[len(names)-1] != "x2gd.large" || slices.Contains(names, "x1e.large") {
		t.Errorf("%d types: %v", len(names), names)
	}
}

// Spot capacity is not chosen by price alone: what is asked for are the cheapest types.
func TestASpotRequestNamesTheCheapest(t *testing.T) {
	s, err := Select(input(readyClass("AL2023"), claim(capacityTypes("spot")), manyKinds()...))
	if err != nil {
		t.Fatal(err)
	}
	if n := len(s.Candidates); n != typesMax || s.Candidates[n-1].Type.Name != "t60.large" {
		t.Errorf("%d types, the last %s", n, s.Candidates[n-1].Type.Name)
	}
}

func TestQuotaOf(t *testing.T) {
	for name, want := range map[string]string{
		"m5.large": "standard", "c7gn.xlarge": "standard", "im4gn.large": "standard", "z1d.large": "standard", "g4dn.xlarge": "g-vt", "gr6.4xlarge": "g-vt",
		"vt1.3xlarge": "g-vt", "p5.48xlarge": "p", "u-6tb1.metal": "u", "u7i-12tb.224xlarge": "u", "x2iedn.xlarge": "x", "hpc7a.96xlarge": "hpc", "trn1.2xlarge": "trn",
		"inf2.xlarge": "inf", "dl1.24xlarge": "dl", "f1.2xlarge": "f", "odd": "odd",
	} {
		if got := quotaOf(name); got != want {
			t.Errorf("%s: %s, want %s", name, got, want)
		}
	}
}
