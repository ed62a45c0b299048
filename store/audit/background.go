package audit

// begun is what a goroutine works out.
type begun[T any] struct {
	done     chan struct{}
	value    T
	panicked any
}

// wait for the value. A panic of the goroutine becomes one of whoever waits, who may have a defence
// against it.
func (b *begun[T]) wait() T {
	<-b.done
	if b.panicked != nil {
		panic(b.panicked)
	}
	return b.value
}

func (b *begun[T]) run(value func() T) {
	defer close(b.done)
	defer func() { b.panicked = recover() }()
	b.value = value()
}

// begin works out a value beside the replay, as soon as one of its slots is free.
func begin[T any](p *replayer, value func() T) *begun[T] {
	b := &begun[T]{done: make(chan struct{})}
	p.slots <- struct{}{} // here, so that no more Snapshots are held than are being planned on
	p.planning.Go(func() {
		defer func() { <-p.slots }()
		b.run(value)
	})
	return b
}

// then works out a value from another once that is there; until then it takes no slot.
func then[T, U any](p *replayer, first *begun[T], value func(T) U) *begun[U] {
	b := &begun[U]{done: make(chan struct{})}
	p.planning.Go(func() {
		b.run(func() U {
			x := first.wait()
			p.slots <- struct{}{}
			defer func() { <-p.slots }()
			return value(x)
		})
	})
	return b
}

// waitingMax bounds the decisions, and so the Snapshots, of which nothing is noted yet.
const waitingMax = 64

// noteLater notes what comes of a decision that is planned again, after those before it.
func (p *replayer) noteLater(c *begun[compared]) {
	p.report.Planned++
	p.waiting = append(p.waiting, c)
	p.noteAll(waitingMax)
}

// noteAll notes the outcomes in order, until no more than some are left to come.
func (p *replayer) noteAll(left int) {
	for len(p.waiting) > left {
		p.note(p.waiting[0].wait())
		p.waiting = p.waiting[1:]
	}
}
