package claims

import (
	"cmp"
	"errors"
	"fmt"
	"slices"

	"millwright/planner/claim"
)

// writtenKey is of what a move wrote to the objects of a claim.
type writtenKey struct {
	claim string
	move  claim.Move
}

// retry is the key of the pause before the same is written again.
func (k writtenKey) retry() string { return "again/" + k.claim + "/" + string(k.move) }

// mereWrites are the moves that do nothing but write objects: that they were made is seen in the objects
// alone.
var mereWrites = []claim.Move{claim.Wait, claim.Guard, claim.Stamp, claim.Tag, claim.Release}

// errUndone: what was written before is to be written again.
var errUndone = errors.New("written before, and undone by a webhook or another controller")

// mayWrite is false while what was written last by a move is to be written again, and its pause is not over:
// a mutating webhook, of which the API server says nothing, or a controller has undone it. Without a pause
// that would go on as fast as the API server answers.
func (s *Stepper) mayWrite(name string, m claim.Move, what string) bool {
	k := writtenKey{name, m}
	return !slices.Contains(mereWrites, m) || !s.mem.wasWritten(k, what) || s.effects.Retries.Due(k.retry(), s.host.Now())
}

// noteWrite remembers what a move has written. The error says that it had written the same before; each time
// the pause is longer.
func (s *Stepper) noteWrite(name string, m claim.Move, what string) error {
	k := writtenKey{name, m}
	if !slices.Contains(mereWrites, m) {
		return nil
	}
	again := s.mem.wasWritten(k, what)
	if !again {
		s.mem.noteWritten(k, what)
		s.effects.Retries.Succeeded(k.retry())
	}
	s.effects.Retries.Failed(k.retry(), s.host.Now())
	if again {
		return fmt.Errorf("write nodeclaim %s: %w: %s", name, errUndone, cmp.Or(what, string(m)))
	}
	return nil
}

// wasWritten reports that a move has written this last.
func (m *memory) wasWritten(k writtenKey, what string) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	last, known := m.written[k]
	return known && last == what
}

func (m *memory) noteWritten(k writtenKey, what string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.written[k] = what
}
