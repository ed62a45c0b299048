package sim

import (
	"slices"
	"time"

	"millwright/planner"
	"millwright/planner/ledger"
)

// vigil looks each second whether the services that empty an interrupted node can act, and since when the
// same processes can without a break.
type vigil struct {
	*Sim
	able []*process
}

// emptiers are the services that empty an interrupted node.
var emptiers = []string{ledger.ServiceLifecycle, ledger.ServiceTerminator}

func (s *Sim) keepVigil() {
	v := &vigil{Sim: s}
	s.Clock.Every(time.Second, v.look)
}

func (v *vigil) look() bool {
	was := v.able
	if v.able = v.ableNow(); v.able == nil || was != nil && !slices.Equal(v.able, was) {
		v.judge.Departures.Look(nil)
	} else {
		v.judge.Departures.Look(v.able[0])
	}
	if v.users.Visits != nil {
		v.watchQuiet(was)
	}
	if v.Drawn.Recommended > 0 {
		v.watchRecommended(was)
	}
	v.judge.Repairs.Look(v.able != nil && (was == nil || slices.Equal(v.able, was)))
	v.bargains.Look(v.able != nil && slices.Equal(v.able, was))
	return v.Failed == nil
}

// watchRecommended has the judge look at what the lifecycle makes of recommendations.
func (v *vigil) watchRecommended(was []*process) {
	if v.able == nil || !slices.Equal(v.able, was) {
		v.judge.Recommended.Look(nil)
		return
	}
	v.judge.Recommended.Look(v.able[0])
}

// watchQuiet has the judge look at what the lifecycle shows of quiet nodes, if nothing keeps it from that.
func (v *vigil) watchQuiet(was []*process) {
	if v.able == nil || !slices.Equal(v.able, was) {
		v.judge.Quiet.Look(nil)
		return
	}
	v.judge.Quiet.Look(v.able[0])
}

// ableNow are the processes of emptiers if nothing keeps them from acting; else nil.
func (v *vigil) ableNow() (list []*process) {
	stopped := v.Operator.Stop != ledger.StopNone
	if stopped || v.isAway(toKube) || v.isAway(toLog) || v.watcher.dead || v.watcher.machine.checked.Check() != nil {
		return nil
	}
	for _, name := range emptiers {
		p := v.alive[name]
		if p == nil || !p.leads() || p.world.Position().Incarnation != v.Incarnation || p.mode != ledger.ModeActive || p.standsDown || p.reliable() != nil ||
			!p.leaseEnd.IsZero() || v.Clock.Now().Before(planner.Latest(p.frozenUntil, p.readsUntil)) {
			return nil
		}
		list = append(list, p)
	}
	return list
}
