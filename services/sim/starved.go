package sim

import (
	"math/rand/v2"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

// starvation is a kind of call for which the API server has no time for a while, as with a priority level
// that is full or an admission webhook that is away, while all other calls go on.
type starvation struct {
	rng *rand.Rand
	// calls are refused whose names begin so, until a time.
	calls string
	until time.Time
}

// starvable are the calls that are refused apart from others, by how their names begin.
var starvable = []string{"update status of nodeclaim ", "set condition ", "update nodeclaim ", "create nodeclaim ", "update node ", "patch node ", "evict pod "}

var errStarved = apierrors.NewTooManyRequestsError("no time for it")

// nowAndThen begins a starvation, unless there is one, or has kube-scheduler stand still. It is called once a
// second of the script.
func (x *starvation) nowAndThen(s *Sim) {
	if s.Faults.Starved == 0 && s.Faults.SchedulerAway == 0 {
		return
	}
	if x.rng == nil {
		x.rng = s.Own(0x73746172)
	}
	rng, now := x.rng, s.Clock.Now()
	long := time.Duration(5+rng.IntN(55)) * time.Second
	if rng.IntN(1000) < s.Faults.Starved && now.After(x.until) {
		x.calls, x.until = starvable[rng.IntN(len(starvable))], now.Add(long)
		s.Trace("the API server refuses %q for %s", x.calls, long)
	}
	if rng.IntN(1000) < s.Faults.SchedulerAway {
		s.Trace("kube-scheduler stands still for %s", long)
		s.Cluster.PauseScheduler(long)
	}
}

// refuses reports that a call is refused that arrives now.
func (x *starvation) refuses(s *Sim, name string) bool {
	return s.Calmed.IsZero() && s.Clock.Now().Before(x.until) && strings.HasPrefix(name, x.calls)
}
