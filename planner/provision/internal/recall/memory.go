package recall

import (
	"strings"

	"millwright/planner"
	"millwright/planner/provision/internal/solve"
)

const (
	// podsMax bounds the pods of all questions that are remembered: an answer takes some 300 bytes for each.
	podsMax = 50_000
	// passesMax is after how many passes an answer is forgotten that was not asked for.
	passesMax = 2
)

// Memory of answers. The zero value is an empty one. It is for one goroutine.
type Memory[R any] struct {
	entries map[string]*entry[R]
	pods    int
	now     *moment
	pass    int
	// Asked counts the questions, Recalled those of them whose answer was given back.
	Asked, Recalled int
}

// moment is what a Snapshot has besides a question.
type moment struct {
	snapshot *planner.Snapshot // nil once the pass has ended
	options  string
	nodes    []node
	// since are the differences from earlier moments.
	since map[*moment]*difference
}

type entry[R any] struct {
	question *question
	kinds    *kinds
	reads    *reads
	at       *moment
	pass     int
	answer   R
}

// Begin begins a pass over one Snapshot, which must be of versions that nothing changes.
func (m *Memory[R]) Begin(s *planner.Snapshot) {
	m.pass++
	m.now = &moment{snapshot: s, since: map[*moment]*difference{}}
	for key, e := range m.entries {
		if m.pass-e.pass > passesMax {
			m.forget(key)
		}
	}
}

// End ends a pass: nothing refers to its Snapshot any more.
func (m *Memory[R]) End() {
	if m.now != nil {
		m.now.snapshot, m.now.since = nil, nil
	}
	m.now = nil
}

func (m *Memory[R]) forget(key string) {
	m.pods -= len(m.entries[key].question.pods)
	delete(m.entries, key)
}

// moment of the pass, worked out with the first question.
func (m *Memory[R]) moment() *moment {
	if m.now.nodes == nil {
		m.now.options, m.now.nodes = string(planner.EncodeOptions(m.now.snapshot.Options)), nodesOf(m.now.snapshot)
	}
	return m.now
}

// Answer returns the answer to what becomes of the input without some nodes: the one of an earlier pass if it
// still is the answer, else what solve returns, which is asked with the input. what distinguishes ways to
// answer.
func (m *Memory[R]) Answer(what string, in *solve.Input, without []string, solve func() R) R {
	m.Asked++
	now := m.moment()
	q := questionOf(now.options, in, without)
	if q == nil {
		return solve()
	}
	key := what + "\x00" + strings.Join(without, "\x00")
	if e := m.entries[key]; e != nil {
		if e.question.same(q) && e.question.untouched(e.kinds, now.from(e.at)) && e.reads.hold(in) {
			m.Recalled++
			e.question, e.at, e.pass = q, now, m.pass
			return e.answer
		}
		m.forget(key)
	}
	r := watch(in)
	answer := solve()
	r.source = nil
	if m.pods+len(q.pods) <= podsMax {
		if m.entries == nil {
			m.entries = map[string]*entry[R]{}
		}
		m.entries[key] = &entry[R]{q, q.kinds(), r, now, m.pass, answer}
		m.pods += len(q.pods)
	}
	return answer
}

// from is the difference from an earlier moment.
func (x *moment) from(old *moment) *difference {
	d := x.since[old]
	if d == nil {
		d = compareNodes(old.nodes, x.nodes)
		x.since[old] = d
	}
	return d
}
