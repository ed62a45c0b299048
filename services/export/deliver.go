package export

import (
	"context"
	"errors"
	"time"

	"millwright/services/internal/clock"
)

// refusalsMin is how often a sink must have refused a message before it is asked for another one's sake.
const refusalsMin = 2

// attempt offers the first messages of the window once. If they are not taken it pauses.
//
// A sink that refuses may be down, or badly configured, or dislike the one message. It is asked whether it
// takes another one: if it does, and then refuses the first again, that one is given up. So an outage, of
// whatever length and with whatever answer, costs nothing; and one message stops the others only until
// another comes.
func (l *feed) attempt(ctx context.Context) {
	if l.window[0].taken {
		l.shift(1)
		return
	}
	n := 1
	if l.tries.single == 0 {
		for n < min(len(l.window), l.sink.atOnce()) && !l.window[n].taken {
			n++
		}
	}
	err := l.offer(ctx, l.window[:n])
	if err == nil {
		l.delivered(n)
		l.shift(n)
		return
	}
	var no *refusal
	if errors.As(err, &no) {
		if n > 1 {
			l.tries.single = n
			return
		}
		l.tries.refused++
		if l.tries.refused >= refusalsMin && l.takesAnother(ctx) {
			err = l.offer(ctx, l.window[:1])
			if err == nil {
				l.delivered(1)
				l.shift(1)
				return
			}
			if errors.As(err, &no) {
				l.dead(l.window[0].seq, err)
				l.shift(1)
				return
			}
		}
	}
	l.pause(ctx, err, no)
}

// takesAnother offers one of the other messages, another each time.
func (l *feed) takesAnother(ctx context.Context) bool {
	others := l.window[1:]
	if len(others) == 0 {
		return false
	}
	i := (l.tries.refused - refusalsMin) % len(others)
	if others[i].taken { // when the window was another
		i = 0
		for i < len(others) && others[i].taken {
			i++
		}
		if i == len(others) {
			return false
		}
	}
	if l.offer(ctx, others[i:i+1]) != nil {
		return false
	}
	others[i].taken = true
	l.delivered(1)
	return true
}

// offer sends messages, within the time that a sink may take.
func (l *feed) offer(ctx context.Context, messages []message) error {
	bodies := make([]any, len(messages))
	for i := range messages {
		bodies[i] = messages[i].body
	}
	bounded, cancel := context.WithTimeout(ctx, l.cfg.Settings.Timeout)
	defer cancel()
	began := time.Now()
	err := l.sink.send(bounded, bodies)
	if err != nil && ctx.Err() != nil {
		return ctx.Err() // stopping says nothing of the sink
	}
	outcome := outcomeTaken
	var no *refusal
	if errors.As(err, &no) {
		outcome = outcomeRefused
	} else if err != nil {
		outcome = outcomeUnanswered
	}
	l.metrics.attempts.WithLabelValues(l.name, outcome).Inc()
	l.metrics.duration.WithLabelValues(l.name).Observe(time.Since(began).Seconds())
	return err
}

// delivered counts messages that were taken.
func (l *feed) delivered(n int) { l.metrics.delivered.WithLabelValues(l.name).Add(float64(n)) }

// shift takes the first messages from the window, for they need no more sending.
func (l *feed) shift(n int) {
	l.tries = trial{single: max(0, l.tries.single-n)}
	clear(l.window[:n])
	l.window = l.window[n:]
	if len(l.window) > 0 {
		l.cursor.advance(l.window[0].before)
		l.cursor.From = l.window[0].open
		return
	}
	l.cursor.advance(l.read)
	l.cursor.From = l.sink.open()
}

// afterMax bounds how long a sink can have itself left alone.
const afterMax = 5 * time.Minute

// pause waits for the next attempt.
func (l *feed) pause(ctx context.Context, err error, no *refusal) {
	if ctx.Err() != nil {
		return
	}
	if l.tries.retry == nil {
		l.tries.retry = newRetry()
	}
	wait := l.tries.retry.NextBackOff()
	if no != nil {
		wait = max(wait, min(no.after, afterMax))
	}
	l.lookAhead(ctx)
	l.logger.Warn().Err(err).Uint64("revision", l.window[0].seq).Dur("retry_in", wait).Msg("sink did not take it")
	_ = clock.Sleep(ctx, wait)
}

// lookAhead finds out how long the log is meanwhile, for who watches the lag.
func (l *feed) lookAhead(ctx context.Context) {
	bounded, cancel := context.WithTimeout(ctx, keepTimeout)
	defer cancel()
	if head, err := l.cfg.Log.Head(bounded); err == nil {
		l.head = max(l.head, head.Seq)
		l.measure()
	}
}
