package claims

import (
	"errors"
	"fmt"

	"millwright/planner"
	"millwright/planner/ledger"
	"millwright/planner/provision"
	"millwright/services/internal/service"
	"millwright/services/lifecycle/launch"
)

// current returns the claims of which equal things are asked, or none if what was built for them cannot be
// had any more by what the Ledger says now: while a request waited, the answer to another may have come. They
// are built again then. While nothing can be read of the Ledger they wait as they are.
//
// expects is what the record that opens the attempt relies on beside the claims.
func (s launcher) current(views []*claimView, built []builtLaunch) (still []*claimView, expects []planner.Expectation, err error) {
	outdated, expects, err := s.isOutdatedRequest(views[0], built[0].launch)
	if errors.Is(err, service.ErrNotReady) {
		s.wait(built)
		return nil, nil, nil
	}
	if err != nil || outdated {
		return nil, nil, err
	}
	return views, expects, nil
}

// wait keeps what was built for a moment.
func (s launcher) wait(built []builtLaunch) {
	for _, b := range built {
		b.notBefore = s.host.Now().Add(gatherIdle / 2)
		s.gathering.add(b)
	}
}

func (s launcher) isOutdatedRequest(v *claimView, built launch.Built) (outdated bool, expects []planner.Expectation, err error) {
	ref := refOf(v)
	if ref == nil {
		return true, nil, nil
	}
	err = s.host.Snapshot(service.ForEffects, func(snap *planner.Snapshot) error {
		cat := provision.Catalog(snap, v.pool(), ref.Name)
		if cat == nil {
			return fmt.Errorf("find catalogue of NodeClass %s: %w", ref.Name, service.ErrNotReady)
		}
		free, _ := freeReserved(snap.Ledger, cat, v.class, snap.Now)
		outdated = built.Outdated(func(k ledger.OfferingKey) bool { return snap.Ledger.Unavailable(k, snap.Now) },
			snap.Ledger.UnavailableSubnets(snap.Now), free)
		expects = planner.Expect(snap.Ledger, reservationAggregates(built.Templates)...)
		return nil
	})
	return outdated, expects, err
}
