package clock

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"millwright/planner/ledger"
)

// Tolerance is how far the clock may be off.
const Tolerance = ledger.ClockTolerance

// Witnesses of the time, as they are named in logs and metrics.
const (
	APIServer = "api-server"
	AWS       = "aws"
)

const (
	// dateUnit is the precision to which the Date of an answer is truncated.
	dateUnit = time.Second
	// testimonyFor is how long a testimony is relied on with the monotonic clock alone, which does not count
	// sleep.
	testimonyFor = 5 * time.Minute
)

// ErrUnwitnessed: no witness has stated the time yet.
var ErrUnwitnessed = errors.New("the clock has not been compared with anybody's yet")

// Config of a Clock. nil functions are those of package time.
type Config struct {
	// Wall is the clock of the machine, which users and time servers set.
	Wall func() time.Time
	// Monotonic is the time since some moment, by a clock that nobody sets.
	Monotonic func() time.Duration
}

// Clock is safe for concurrent use.
type Clock struct {
	wall func() time.Time
	mono func() time.Duration

	mu sync.Mutex
	// anchor is the wall clock at a moment of the monotonic one at which no witness contradicted it; the zero
	// time before the first.
	anchor   time.Time
	anchored time.Duration
	heard    map[string]testimony
	// reached is where witnesses were last reached, for asking them again.
	reached map[string]place
}

// testimony of one witness: its clock showed a time between earliest and latest when the monotonic clock
// showed 0.
type testimony struct {
	earliest, latest time.Time
	at               time.Duration
}

// joined is the intersection of two testimonies of a witness; the later one alone if they contradict each
// other.
func (t testimony) joined(later testimony) testimony {
	both := later
	if t.earliest.After(both.earliest) {
		both.earliest = t.earliest
	}
	if t.latest.Before(both.latest) {
		both.latest = t.latest
	}
	if t.at == 0 || both.latest.Before(both.earliest) {
		return later
	}
	return both
}

// Offset of the clock from a witness's: it is ahead by at least Min and at most Max; below 0 is behind.
type Offset struct {
	Witness  string
	Min, Max time.Duration
}

// New returns a clock without witnesses.
func New(cfg Config) *Clock {
	if cfg.Wall == nil {
		cfg.Wall = func() time.Time { return time.Now().Round(0) }
	}
	if cfg.Monotonic == nil {
		began := time.Now()
		cfg.Monotonic = func() time.Duration { return time.Since(began) }
	}
	return &Clock{wall: cfg.Wall, mono: cfg.Monotonic, heard: map[string]testimony{}, reached: map[string]place{}}
}

// Now is the checked time; before the first witness, that of the machine.
func (c *Clock) Now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.now()
}

func (c *Clock) now() time.Time {
	if c.anchor.IsZero() {
		return c.wall()
	}
	return c.anchor.Add(c.mono() - c.anchored)
}

// Monotonic is the reading to pass to Witness, taken before the request.
func (c *Clock) Monotonic() time.Duration { return c.mono() }

// Witness takes in the date of an answer to a request that was sent at a reading of Monotonic.
func (c *Clock) Witness(name string, asked time.Duration, date time.Time) {
	answered := c.mono()
	c.mu.Lock()
	defer c.mu.Unlock()
	maps.DeleteFunc(c.heard, func(_ string, t testimony) bool { return answered-t.at > testimonyFor })
	c.heard[name] = c.heard[name].joined(testimony{earliest: date.Add(-answered), latest: date.Add(dateUnit - asked), at: answered})
	if c.contradicted() == nil {
		c.anchor, c.anchored = c.wall(), c.mono()
	}
}

// Check is nil while the clock can be relied on, and otherwise says why not.
func (c *Clock) Check() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if err := c.contradicted(); err != nil {
		return err
	}
	if c.anchor.IsZero() {
		return ErrUnwitnessed
	}
	if set := c.wall().Sub(c.now()); set > Tolerance || set < -Tolerance {
		return fmt.Errorf("the clock was set by %s and nobody has confirmed it since", set.Round(time.Millisecond))
	}
	return nil
}

// contradicted says which witness contradicts the clock. The caller holds the lock.
func (c *Clock) contradicted() error {
	for _, o := range c.offsets() {
		if err := o.doubts(); err != nil {
			return err
		}
	}
	return nil
}

// doubts says that the witness contradicts the clock.
func (o Offset) doubts() error {
	switch {
	case o.Min > Tolerance:
		return fmt.Errorf("the clock is at least %s ahead of that of %s", o.Min.Round(time.Millisecond), o.Witness)
	case o.Max < -Tolerance:
		return fmt.Errorf("the clock is at least %s behind that of %s", (-o.Max).Round(time.Millisecond), o.Witness)
	}
	return nil
}

// Offsets of the clock from those of its witnesses, by name.
func (c *Clock) Offsets() []Offset {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.offsets()
}

func (c *Clock) offsets() []Offset {
	mono := c.mono()
	wall := c.wall().Add(-mono)
	var list []Offset
	for _, name := range slices.Sorted(maps.Keys(c.heard)) {
		t := c.heard[name]
		if mono-t.at <= testimonyFor {
			list = append(list, Offset{name, wall.Sub(t.latest), wall.Sub(t.earliest)})
		}
	}
	return list
}

// doubters are the witnesses that contradict the clock.
func (c *Clock) doubters() (names []string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, o := range c.offsets() {
		if o.doubts() != nil {
			names = append(names, o.Witness)
		}
	}
	return names
}

// Silence is how long ago a witness last stated the time; false if none ever did.
func (c *Clock) Silence() (time.Duration, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	var last time.Duration
	for _, t := range c.heard {
		last = max(last, t.at)
	}
	return c.mono() - last, len(c.heard) > 0
}
