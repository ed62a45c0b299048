package claims

import (
	"context"
	"fmt"
	"slices"
	"time"

	"millwright/planner/claim"
	"millwright/planner/ledger"
	"millwright/services/internal/ec2"
	"millwright/services/internal/lane"
)

const (
	// bootPatience is how long a Node may take before EC2 is asked what has become of its instance.
	bootPatience = 4 * time.Minute
	// bootEvery is how often it is asked again: consoles are written to while an instance boots.
	bootEvery = 4 * time.Minute
)

// Boots say what is known of an instance whose Node does not come. ec2.Client is one.
type Boots interface {
	BootReport(ctx context.Context, id string) (ec2.BootReport, error)
}

// boot of an instance as it was reported last, and when that was asked for; report is nil until there is an
// answer.
type boot struct {
	asked  time.Time
	report *claim.Boot
}

// overdue: the claim's instance was launched a while ago, and no Node came of it.
func (v *claimView) overdue() bool {
	o := v.input.Object
	return v.ledger != nil && v.ledger.State == ledger.ClaimLaunched && v.ledger.Doomed == nil && v.instanceID() != "" && len(v.nodes) == 0 &&
		o != nil && o.Deleting.IsZero() && v.input.Now.Sub(o.LaunchedSince) >= bootPatience
}

// stepBoot asks EC2 about an overdue instance, beside everything else about its claim.
func stepBoot(s *Stepper, v *claimView) {
	if s.deps.Boots == nil || !v.overdue() || !s.mem.bootDue(v, s.host.Now()) {
		return
	}
	name, uid, id := v.name, v.uid(), v.instanceID()
	s.claimEffect(name, "boot/"+name, lane.Seek, func(ctx context.Context) error {
		r, err := s.deps.Boots.BootReport(ctx, id)
		if err != nil {
			return fmt.Errorf("ask what became of instance %s: %w", id, err)
		}
		s.mem.setBoot(uid, &claim.Boot{InstanceID: id, State: r.State, Checks: slices.Clone(r.Checks), Console: r.Console})
		return nil
	})
}
