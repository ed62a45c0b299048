package index

import (
	"errors"
	"slices"
	"sync"
)

const (
	// TailsMax bounds the readers that follow the log at a time, tailBuffer what waits for a slow one.
	TailsMax   = 64
	tailBuffer = 256
)

// ErrTooManyTails: another reader has to leave first.
var ErrTooManyTails = errors.New("too many follow the log already")

// Tail gets the rows that are added from its beginning on, of records after one.
type Tail struct {
	// Rows is closed if the reader was too slow: it reads on from where it is by List.
	Rows   <-chan Row
	rows   chan Row
	filter Filter
	after  uint64
}

// tails are the readers that follow.
type tails struct {
	tailMu sync.Mutex
	list   map[*Tail]bool
}

// Follow begins a Tail of the records after one; Leave ends it. While the Index is being filled, records are
// added that are not new: whoever wants none of them begins after the head of the log.
func (t *tails) Follow(f Filter, after uint64) (*Tail, error) {
	t.tailMu.Lock()
	defer t.tailMu.Unlock()
	if len(t.list) >= TailsMax {
		return nil, ErrTooManyTails
	}
	x := &Tail{rows: make(chan Row, tailBuffer), filter: f, after: after}
	x.Rows = x.rows
	if t.list == nil {
		t.list = map[*Tail]bool{}
	}
	t.list[x] = true
	return x, nil
}

// Leave ends a Tail; once more changes nothing.
func (t *tails) Leave(x *Tail) {
	t.tailMu.Lock()
	defer t.tailMu.Unlock()
	delete(t.list, x)
}

// tell passes a row about some subjects on to all who want it, and waits for none of them.
func (t *tails) tell(r Row, subjects []string) {
	t.tailMu.Lock()
	defer t.tailMu.Unlock()
	for x := range t.list {
		if f := x.filter; r.Seq <= x.after || !f.Wants(&r) || f.Object != "" && !slices.Contains(subjects, f.Object) {
			continue
		}
		select {
		case x.rows <- r:
		default:
			delete(t.list, x)
			close(x.rows)
		}
	}
}
