// Package clock is virtual time: a queue of future events, and the time of the present one.
//
// Guarantees: events happen in the order of their times, those at the same time in the order they were set;
// time moves only from one event to the next. Not safe for concurrent use: one goroutine runs everything.
package clock

import "time"

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
	c.queue.push(event{at: c.now.Add(max(d, 0)), order: c.count, fn: fn})
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
	e := c.queue.pop()
	c.now = e.at
	e.fn()
	return true
}

type event struct {
	at    time.Time
	order uint64
	fn    func()
}

// queue is a heap by time, then by order.
type queue []event

func (q queue) less(i, j int) bool {
	if d := q[i].at.Compare(q[j].at); d != 0 {
		return d < 0
	}
	return q[i].order < q[j].order
}

func (q *queue) push(e event) {
	*q = append(*q, e)
	for i := len(*q) - 1; i > 0; {
		parent := (i - 1) / 2
		if !q.less(i, parent) {
			return
		}
		(*q)[i], (*q)[parent] = (*q)[parent], (*q)[i]
		i = parent
	}
}

func (q *queue) pop() event {
	first, last := (*q)[0], len(*q)-1
	(*q)[0], (*q)[last] = (*q)[last], event{}
	*q = (*q)[:last]
	for i := 0; ; {
		least := i
		for _, child := range []int{2*i + 1, 2*i + 2} {
			if child < last && q.less(child, least) {
				least = child
			}
		}
		if least == i {
			return first
		}
		(*q)[i], (*q)[least] = (*q)[least], (*q)[i]
		i = least
	}
}
