// Package lane separates kinds of effects, so that a brownout of what one kind calls does not stop the
// others.
//
// Each Lane runs a bounded number of effects at a time; what does not fit waits its turn, first come, first
// served, so that no object starves whatever its name. Effects with one key exclude each other in all lanes.
// Queue is only the bookkeeping: it starts nothing, has no lock and no clock, and serves processes and the
// simulator alike.
package lane

// Lane is a kind of effects, by what they call.
type Lane string

const (
	// Converge: calls to the API server that converge on what is recorded.
	Converge Lane = "converge"
	// Create: what creates NodeClaims and instances. These effects end before the lease does, and start
	// neither while the log is away nor while everything is stopped.
	Create Lane = "create"
	// Release: finalizers of claims without an instance. A successor may have begun to launch for the same
	// claim, and no version of the object shows it: only a certain leader may do this.
	Release Lane = "release"
	// Terminate, Tag and Seek ask EC2 about one instance each.
	Terminate Lane = "terminate"
	Tag       Lane = "tag"
	Seek      Lane = "seek"
	// NodeClass: what EC2NodeClasses ask of AWS.
	NodeClass Lane = "nodeclass"
	// Scan, Poll and Tidy are housekeeping; each has one effect.
	Scan Lane = "scan"
	Poll Lane = "poll"
	Tidy Lane = "tidy"
	// Evict: evictions and everything else that empties a node. List: what asks the API server whether a node
	// is empty.
	Evict Lane = "evict"
	List  Lane = "list"
)

// Creates reports that effects of the lane may create something, which is not allowed during a stop.
func (l Lane) Creates() bool { return l == Create }

// Fenced reports that a deposed leader could do harm by effects of the lane: they end before its lease does,
// and are not started while the log is away, since another process may lead by then.
func (l Lane) Fenced() bool { return l == Create || l == Release }

// waitingMax bounds the effects that wait in one lane.
const waitingMax = 20_000

// sizes are how many effects of a lane run at a time.
func (l Lane) size() int {
	switch l {
	case Converge, Create, Release, Evict:
		return 64
	case Terminate, List:
		return 32
	case Tag, NodeClass:
		return 16
	case Seek:
		return 8
	}
	return 1
}

// Queue is what runs and waits in all lanes. E is what the caller needs to start an effect.
type Queue[E any] struct {
	max     int
	lanes   map[Lane]*state[E]
	taken   map[string]Lane
	refused bool
}

type state[E any] struct {
	running int
	waiting []waiter[E]
}

type waiter[E any] struct {
	key    string
	effect E
}

// NewQueue returns an empty Queue. max bounds what runs in any lane, if it is lower than the lane's own size;
// 0: the sizes count.
func NewQueue[E any](max int) *Queue[E] {
	return &Queue[E]{max: max, lanes: map[Lane]*state[E]{}, taken: map[string]Lane{}}
}

// Offer accepts an effect, unless its key is taken or too many wait: start means that the caller must run it
// now, otherwise it waits and End returns it in its turn.
func (q *Queue[E]) Offer(l Lane, key string, effect E) (start, taken bool) {
	if _, busy := q.taken[key]; busy || q.refused {
		return false, false
	}
	s := q.lanes[l]
	if s == nil {
		s = &state[E]{}
		q.lanes[l] = s
	}
	if s.running < q.size(l) {
		s.running++
		q.taken[key] = l
		return true, true
	}
	if len(s.waiting) >= waitingMax {
		return false, false
	}
	q.taken[key] = l
	s.waiting = append(s.waiting, waiter[E]{key, effect})
	return false, true
}

// End frees the key of an effect that ran; next is one that waited for its place, to be run now.
func (q *Queue[E]) End(key string) (nextKey string, next E, ok bool) {
	l, running := q.taken[key]
	if !running {
		return "", next, false
	}
	delete(q.taken, key)
	s := q.lanes[l]
	s.running--
	if len(s.waiting) == 0 || s.running >= q.size(l) {
		return "", next, false
	}
	w := s.waiting[0]
	s.waiting[0] = waiter[E]{}
	s.waiting = s.waiting[1:]
	s.running++
	return w.key, w.effect, true
}

// Refuse drops what waits and accepts nothing more, until it is called with false.
func (q *Queue[E]) Refuse(refuse bool) {
	q.refused = refuse
	if !refuse {
		return
	}
	for _, s := range q.lanes {
		for _, w := range s.waiting {
			delete(q.taken, w.key)
		}
		s.waiting = nil
	}
}

// IsTaken reports that an effect of the key runs or waits.
func (q *Queue[E]) IsTaken(key string) bool {
	_, taken := q.taken[key]
	return taken
}

// Load is how many effects run and wait in a lane.
func (q *Queue[E]) Load(l Lane) (running, waiting int) {
	if s := q.lanes[l]; s != nil {
		return s.running, len(s.waiting)
	}
	return 0, 0
}

func (q *Queue[E]) size(l Lane) int {
	if q.max > 0 {
		return min(q.max, l.size())
	}
	return l.size()
}
