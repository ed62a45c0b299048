package recall

import (
	"strings"

	"millwright/planner"
	"millwright/planner/provision/internal/solve"
)

const (
	// podsMax bounds the pods of all questions that are remembered: an answer takes some 100 to 300 bytes for
	// each.
	podsMax = 200_000
	// passesMax is after how many passes an answer is forgotten that was not asked for.
	passesMax = 2
)

// Memory of answers. The zero value is an empty one. It is for one goroutine.
type Memory[R any] struct {
	entries map[string]*entry[R]
	pods    int
	now     *moment
	pass    int
	// watched are reads of solvers that go on until the pass ends.
	watched []*Reads
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
	reads    *Reads
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
	for _, r := range m.watched {
		r.source = nil
	}
	m.now, m.watched = nil, nil
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
	return m.answer(what, questionOf(m.moment().options, in, without), in, func() (R, *Reads) {
		r := watch(in)
		answer := solve()
		r.source = nil
		return answer, r
	})
}

// AnswerOneOfMany is Answer for a solver of many questions, whose input has the nodes that go in this one:
// work returns its reads (Watch), which count for each of its answers. The input of the question is the
// solver's with the pods added that move; marks are what else the solver knows of nodes. What changes on
// nodes that go counts too.
func (m *Memory[R]) AnswerOneOfMany(marks string, in *solve.Input, without []string, work func() (R, *Reads)) R {
	q := questionOf(m.moment().options, in, without)
	if q != nil {
		q.marks, q.own = marks, true
	}
	return m.answer("", q, in, work)
}

// answer to a question; nil: one whose answer can't be given back.
func (m *Memory[R]) answer(what string, q *question, in *solve.Input, work func() (R, *Reads)) R {
	m.Asked++
	now := m.moment()
	if q == nil {
		answer, _ := work()
		return answer
	}
	key := what + "\x00" + strings.Join(q.without, "\x00")
	if e := m.entries[key]; e != nil {
		if e.question.same(q) && e.question.untouched(e.kinds, now.from(e.at)) && e.reads.hold(in, now) {
			m.Recalled++
			e.question, e.at, e.pass = q, now, m.pass
			return e.answer
		}
		m.forget(key)
	}
	answer, r := work()
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
