package sim

import (
	"iter"
)

// coroutine is a step or an effect. It runs only while resume does, on the same thread as all else.
type coroutine struct {
	next  func() (struct{}, bool)
	stop  func()
	yield func(struct{}) bool
	// pause counts the times it was parked; whoever wants to wake it names the pause.
	pause  uint64
	parked bool
	ended  bool
	// cancel ends the context of an effect; fenced effects end with the lease.
	cancel func(error)
	fenced bool
}

type killed struct{}

// newCoroutine does not start fn; the first resume does.
func newCoroutine(fn func()) *coroutine {
	c := &coroutine{}
	c.next, c.stop = iter.Pull(func(yield func(struct{}) bool) {
		c.yield = yield
		defer func() {
			if r := recover(); r != nil && r != any(killed{}) {
				panic(r)
			}
		}()
		fn()
	})
	return c
}

// resume runs c until it parks or ends.
func (s *Sim) resume(c *coroutine) {
	if c.ended {
		return
	}
	before := s.running
	s.running = c
	_, alive := c.next()
	s.running = before
	c.ended = c.ended || !alive
}

// park waits for wake; it does not return if the process dies meanwhile.
func (c *coroutine) park() {
	c.parked = true
	alive := c.yield(struct{}{})
	c.parked = false
	c.pause++
	if !alive {
		panic(killed{})
	}
}

// rest waits for the next resume; wake does not end it.
func (c *coroutine) rest() {
	if !c.yield(struct{}{}) {
		panic(killed{})
	}
}

// wake resumes c if it is still in the pause named.
func (s *Sim) wake(c *coroutine, pause uint64) {
	if c.parked && c.pause == pause {
		s.resume(c)
	}
}

// kill ends a parked coroutine where it stands.
func (c *coroutine) kill() {
	c.ended = true
	c.stop()
}
