package outcome

import (
	"cmp"
	"fmt"
	"maps"
	"slices"

	"millwright/tools/ec2sim/simclient"
)

const claimTag = "karpenter.sh/nodeclaim"

// launchedOnce checks the simulator's ledger: every instance was launched for a NodeClaim, and none for one
// that already had an instance. Instances that one launch made for several NodeClaims are told apart by their
// tags; one that ended before it had any is nobody's. It returns how many NodeClaims there were.
func launchedOnce(entries []simclient.Entry, instances []simclient.Instance) (int, error) {
	named, live := map[string]string{}, map[string]bool{}
	for _, i := range instances {
		named[i.ID], live[i.ID] = i.Tags[claimTag], i.Live()
	}
	launched := map[string][]string{}
	for _, e := range entries {
		if e.Outcome != "launched" && e.Outcome != "partial" {
			continue
		}
		for _, id := range e.Instances {
			switch claim := cmp.Or(e.Tags[claimTag], named[id]); {
			case claim != "":
				launched[claim] = append(launched[claim], id)
			case live[id]:
				return 0, fmt.Errorf("check launches: %s carries no NodeClaim tag", id)
			}
		}
	}
	for _, claim := range slices.Sorted(maps.Keys(launched)) {
		if n := len(launched[claim]); n > 1 {
			return 0, fmt.Errorf("check launches: NodeClaim %s launched %d instances: %v", claim, n, launched[claim])
		}
	}
	return len(launched), nil
}

// mismatch says how live instances and NodeClaims are not one to one; "" if they are.
func mismatch(claims []string, instances []simclient.Instance) string {
	seen := map[string]bool{}
	for _, i := range instances {
		claim := i.Tags[claimTag]
		switch {
		case !i.Live():
			continue
		case !slices.Contains(claims, claim):
			return fmt.Sprintf("instance %s has no NodeClaim %q", i.ID, claim)
		case seen[claim]:
			return fmt.Sprintf("NodeClaim %s has two instances", claim)
		}
		seen[claim] = true
	}
	for _, c := range claims {
		if !seen[c] {
			return fmt.Sprintf("NodeClaim %s has no instance", c)
		}
	}
	return ""
}
