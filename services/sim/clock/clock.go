// Package clock is virtual time: a queue of what is to happen, and the moment of what happens now.
//
// Guarantees: events happen in the order of their times, those of one time in the order they were set; time
// moves only from one event to the next. Not safe for concurrent use: one goroutine runs everything.
// Callers: the simulator and its fakes.
package clock

import (
	"container/heap"
	"time"
)

// Clock tells virtual time and runs what is due.
type Clock struct {
	now   time.Time
	queue queue
	count uint64
}

// New returns a clock at a moment.
func New(start time.Time) *Clock { return &Clock{now: start} }

// Now is the present.
func (c *Clock) Now() time.Time { return c.now }

// After has fn run when d has passed. A negative d counts as none.
func (c *Clock) After(d time.Duration, fn func()) {
	c.count++
	heap.Push(&c.queue, event{at: c.now.Add(max(d, 0)), order: c.count, fn: fn})
}

// Every has fn run after each d, until it returns false.
func (c *Clock) Every(d time.Duration, fn func() bool) {
	c.After(d, func() {
		if fn() {
			c.Every(d, fn)
		}
	})
}

// Next runs the next event that is due before the end, and moves to its time. Without one it moves to the
// end and returns false.
func (c *Clock) Next(end time.Time) bool {
	if len(c.queue) == 0 || !c.queue[0].at.Before(end) {
		c.now = end
		return false
	}
	e := heap.Pop(&c.queue).(event)
	c.now = e.at
	e.fn()
	return true
}

type event struct {
	at    time.Time
	order uint64
	fn    func()
}

type queue []event

func (q queue) Len() int { return len(q) }
func (q queue) Less(i, j int) bool {
	if q[i].at.Equal(q[j].at) {
		return q[i].order < q[j].order
	}
	return q[i].at.Before(q[j].at)
}
func (q queue) Swap(i, j int) { q[i], q[j] = q[j], q[i] }
func (q *queue) Push(x any)   { *q = append(*q, x.(event)) }
func (q *queue) Pop() any {
	last := len(*q) - 1
	e := (*q)[last]
	(*q)[last] = event{}
	*q = (*q)[:last]
	return e
}
