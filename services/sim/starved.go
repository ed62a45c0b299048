package sim

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"millwright/services/sim/cloud"
	"millwright/store"
)

// starvation is one kind of call that is refused for a while, as all other calls go on: with a priority level
// that is full, an admission webhook that is away, or a right that is taken away and given back.
type starvation struct {
	// number makes random numbers of its own; kinds are by how the names of calls begin.
	number uint64
	kinds  []string
	why    func(call string) error

	rng   *rand.Rand
	kind  string
	until time.Time
}

// starvations that happen independently: API server, EC2, and the log, which takes no records for a while, as
// etcd at its quota. And kube-scheduler, which stands still for a while.
type starvations struct {
	busy, denied, throttled, unauthorized, full starvation
	scheduler                                   *rand.Rand
}

var (
	kindsOfKube = []string{
		"create nodeclaim ", "update nodeclaim ", "update status of nodeclaim ", "set condition ", "delete nodeclaim ",
		"update node ", "patch node ", "delete node ", "evict pod ", "list pods ",
	}
	kindsOfEC2 = []string{"ec2:CreateFleet", "ec2:DescribeInstances", "ec2:TerminateInstances", "ec2:CreateTags"}
)

func newStarvations() starvations {
	return starvations{
		busy: starvation{number: 0x73746172, kinds: kindsOfKube, why: func(string) error { return apierrors.NewTooManyRequestsError("no time for it") }},
		denied: starvation{number: 0x666f7262, kinds: kindsOfKube, why: func(call string) error {
			return apierrors.NewForbidden(corev1.Resource("any"), call, errors.New("no such right"))
		}},
		throttled:    starvation{number: 0x7468726f, kinds: kindsOfEC2, why: cloud.Throttled},
		unauthorized: starvation{number: 0x756e6175, kinds: kindsOfEC2, why: cloud.Unauthorized},
		full: starvation{number: 0x66756c6c, kinds: []string{"append "}, why: func(string) error {
			return fmt.Errorf("at its quota: %w", store.ErrRefused)
		}},
	}
}

// nowAndThen begins starvations. It is called once a second of the script.
func (x *starvations) nowAndThen(s *Sim) {
	x.busy.nowAndThen(s, s.Faults.Starved)
	x.denied.nowAndThen(s, s.Faults.Denied)
	x.throttled.nowAndThen(s, s.Faults.EC2Starved)
	x.unauthorized.nowAndThen(s, s.Faults.EC2Denied)
	x.full.nowAndThen(s, s.Faults.LogFull)
	if s.Faults.SchedulerAway == 0 {
		return
	}
	if x.scheduler == nil {
		x.scheduler = s.Own(0x73636865)
	}
	if long := starvedFor(x.scheduler); x.scheduler.IntN(1000) < s.Faults.SchedulerAway {
		s.Trace("kube-scheduler stands still for %s", long)
		s.Cluster.PauseScheduler(long)
	}
}

// refusal of a call that arrives now; nil if it is not refused.
func (x *starvations) refusal(s *Sim, call string) error {
	for _, one := range []*starvation{&x.busy, &x.denied, &x.throttled, &x.unauthorized, &x.full} {
		if s.Calmed.IsZero() && s.Clock.Now().Before(one.until) && strings.HasPrefix(call, one.kind) {
			return one.why(call)
		}
	}
	return nil
}

// nowAndThen begins the starvation, unless it goes on.
func (x *starvation) nowAndThen(s *Sim, perThousand int) {
	if perThousand == 0 {
		return
	}
	if x.rng == nil {
		x.rng = s.Own(x.number)
	}
	long := starvedFor(x.rng)
	if now := s.Clock.Now(); x.rng.IntN(1000) < perThousand && now.After(x.until) {
		x.kind, x.until = x.kinds[x.rng.IntN(len(x.kinds))], now.Add(long)
		s.Trace("%q is refused for %s: %v", x.kind, long, x.why(x.kind))
	}
}

func starvedFor(rng *rand.Rand) time.Duration { return time.Duration(5+rng.IntN(55)) * time.Second }
