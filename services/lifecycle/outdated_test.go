package lifecycle

import (
	"slices"
	"testing"

	"millwright/planner/ledger"
	"millwright/services/lifecycle/launch"
	"millwright/store/audit"
)

// What EC2 has none of is not asked for again by requests that were chosen before the answer said so and had
// to wait: they are chosen anew.
func TestARequestThatWaitedHeedsTheMarksThatCameMeanwhile(t *testing.T) {
	r := newRig(t)
	r.ec2.exhausted["c5.large"] = true
	first, second := r.plan(), r.plan()
	r.run("both ready", func() bool { return r.ready(first)() && r.ready(second)() })
	asked := map[string][]string{}
	for _, rec := range r.records {
		if ledger.Kind(rec.Kind) != ledger.KindLaunchRequested {
			continue
		}
		e, err := audit.Decode(rec)
		if err != nil {
			t.Fatal(err)
		}
		p := e.Payload.(*ledger.LaunchRequested)
		in, err := launch.DecodeRequest(p.Request)
		if err != nil {
			t.Fatal(err)
		}
		for _, o := range in.LaunchTemplateConfigs[0].Overrides {
			asked[p.Claim] = append(asked[p.Claim], string(o.InstanceType))
		}
	}
	both := []string{"c5.large", "m5.large"}
	for _, name := range []string{first, second} {
		slices.Sort(asked[name])
		if !slices.Equal(asked[name], both) && !slices.Equal(asked[name], both[1:]) {
			t.Errorf("%s asked for %v", name, asked[name])
		}
	}
	if slices.Equal(asked[first], asked[second]) {
		t.Errorf("%s asked for %v, %s for %v: one of them after the answer to the other", first, asked[first], second, asked[second])
	}
}
