package outcome

import (
	"strings"
	"testing"

	"millwright/tools/ec2sim/simclient"
)

func launch(outcome, claim string, instances ...string) simclient.Entry {
	return simclient.Entry{Call: "CreateFleet", Outcome: outcome, Instances: instances, Tags: map[string]string{claimTag: claim}}
}

func instance(id, state, claim string) simclient.Instance {
	return simclient.Instance{ID: id, State: state, Tags: map[string]string{claimTag: claim}}
}

func TestLaunchedOnce(t *testing.T) {
	cases := map[string]struct {
		entries   []simclient.Entry
		instances []simclient.Instance
		want      int
		problem   string
	}{
		"two NodeClaims, one launch each": {
			entries: []simclient.Entry{launch("launched", "a", "i-1"), launch("partial", "b", "i-2")}, want: 2,
		},
		"a repeated call and one that got nothing launch nothing": {
			entries: []simclient.Entry{launch("none", "a"), launch("launched", "a", "i-1"), launch("repeated", "a", "i-1")}, want: 1,
		},
		"a second launch for a NodeClaim": {
			entries: []simclient.Entry{launch("launched", "a", "i-1"), launch("launched", "a", "i-2")}, problem: "launched 2 instances",
		},
		"a launch for nobody": {entries: []simclient.Entry{launch("launched", "", "i-1")},
			instances: []simclient.Instance{instance("i-1", "running", "")}, problem: "no NodeClaim tag"},
		"one launch for two NodeClaims and for one that ended at once": {entries: []simclient.Entry{launch("launched", "", "i-1", "i-2", "i-3")},
			instances: []simclient.Instance{instance("i-1", "running", "a"), instance("i-2", "terminated", "b"), instance("i-3", "terminated", "")}, want: 2},
		"one launch of two for one NodeClaim": {entries: []simclient.Entry{launch("launched", "", "i-1", "i-2")},
			instances: []simclient.Instance{instance("i-1", "running", "a"), instance("i-2", "running", "a")}, problem: "launched 2 instances"},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			got, err := launchedOnce(c.entries, c.instances)
			if c.problem == "" && (err != nil || got != c.want) {
				t.Errorf("got %d, %v, want %d", got, err, c.want)
			}
			if c.problem != "" && (err == nil || !strings.Contains(err.Error(), c.problem)) {
				t.Errorf("got error %v, want one about %q", err, c.problem)
			}
		})
	}
}

func TestMismatch(t *testing.T) {
	cases := map[string]struct {
		claims    []string
		instances []simclient.Instance
		want      string
	}{
		"nothing at all":               {},
		"one each":                     {[]string{"a", "b"}, []simclient.Instance{instance("i-2", "pending", "b"), instance("i-1", "running", "a")}, ""},
		"terminated ones do not count": {nil, []simclient.Instance{instance("i-1", "terminated", "a")}, ""},
		"an instance left over":        {nil, []simclient.Instance{instance("i-1", "running", "a")}, "instance i-1 has no NodeClaim"},
		"two instances for one":        {[]string{"a"}, []simclient.Instance{instance("i-1", "running", "a"), instance("i-2", "running", "a")}, "has two instances"},
		"a NodeClaim without instance": {[]string{"a"}, []simclient.Instance{instance("i-1", "shutting-down", "a")}, "has no instance"},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			got := mismatch(c.claims, c.instances)
			if (c.want == "") != (got == "") || !strings.Contains(got, c.want) {
				t.Errorf("got %q, want %q", got, c.want)
			}
		})
	}
}
