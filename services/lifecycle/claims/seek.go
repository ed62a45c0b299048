package claims

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	"k8s.io/apimachinery/pkg/types"

	awsv1 "millwright/api/karpenteraws/v1"
	"millwright/planner/claim"
	"millwright/planner/ledger"
	"millwright/services/internal/ec2"
)

// seek looks for the instance of an inherited claim by the tag with its name. What is found is the claim's;
// after a minute without, there is none, and the claim goes.
func (s *Stepper) seek(ctx context.Context, v *claimView, _ claim.Action) (bool, error) {
	if err := s.awaitCatalogue(v, s.started); err != nil {
		return false, err
	}
	found, err := s.deps.EC2.DescribeInstancesByTags(ctx, map[string]string{
		awsv1.TagNodeClaim: v.name, awsv1.TagEKSClusterName: s.deps.Cluster,
	})
	if err != nil {
		return false, fmt.Errorf("look for the instance of nodeclaim %s: %w", v.name, err)
	}
	found = slices.DeleteFunc(found, ec2.Instance.Ending)
	if len(found) > 0 { // of several, garbage collection takes the others
		oldest := slices.MinFunc(found, func(a, b ec2.Instance) int {
			return cmp.Or(a.LaunchTime.Compare(b.LaunchTime), cmp.Compare(a.ID, b.ID))
		})
		a := &attempt{open: &ledger.LaunchRequested{Claim: v.name, UID: v.ledger.UID}, views: []*claimView{v}}
		return false, launcher{s}.launched(ctx, a, oldest, nil)
	}
	now := s.host.Now()
	if now.Sub(s.mem.lookingSince(seekKey(v.ledger.UID), now)) < SearchFor {
		s.effects.Hold(claimKey(v.name), searchEvery)
		return false, nil
	}
	s.mem.setSought(v.ledger.UID)
	return true, nil
}

func seekKey(uid types.UID) string { return "seek/" + string(uid) }

func (m *memory) setSought(uid types.UID) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.sought[uid] = true
}

func (m *memory) isSought(uid types.UID) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.sought[uid]
}
