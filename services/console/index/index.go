package index

import (
	"slices"
	"sync"
	"time"

	"millwright/planner/ledger"
	"millwright/store/audit"
)

const (
	// RowsMax and postingsMax bound what is held: with all their texts some 30 MB.
	RowsMax     = 50_000
	postingsMax = 500_000
	// textMax bounds the text of a row, subjectsMax the subjects that a row shows; all can be searched for.
	textMax     = 600
	subjectsMax = 50
)

// Row is a record at a glance.
type Row struct {
	Seq     uint64      `json:"seq"`
	Time    time.Time   `json:"time"`
	Service string      `json:"service"`
	Mode    ledger.Mode `json:"mode"`
	Kind    string      `json:"kind"`
	// Decision: it was planned on a Snapshot; otherwise it says what was done, or came of it.
	Decision bool   `json:"decision"`
	Text     string `json:"text"`
	// Subjects it is about, as in node/NAME; at most 50.
	Subjects []string `json:"subjects"`
}

// held is a row with all its subjects.
type held struct {
	Row
	about []*postings
}

// postings are the sequences of the rows about a subject, in order.
type postings struct {
	subject string
	seqs    []uint64
}

// Filter of rows; its zero value wants all.
type Filter struct {
	// Kinds by name, Object as a subject; empty: any.
	Kinds  []string
	Object string
	// Since leaves out what is older, Until what is not; zero: nothing.
	Since, Until time.Time
	// Decisions leaves out what was not planned.
	Decisions bool
}

// Wants reports whether a row is wanted, whatever it is about.
func (f Filter) Wants(r *Row) bool {
	return (len(f.Kinds) == 0 || slices.Contains(f.Kinds, r.Kind)) && !r.Time.Before(f.Since) && (f.Until.IsZero() || r.Time.Before(f.Until)) && (!f.Decisions || r.Decision)
}

// Index of the newest records. Run fills it; everything else may be called at any time.
type Index struct {
	logID   string
	rowsMax int

	mu sync.RWMutex
	// rows are without a gap; rows[0] is record first.
	first uint64
	rows  []held
	by    map[string]*postings
	count int
	// head is where the log ended when it was read last.
	head uint64
	// also is called with each record that is read, in order; nil: nothing is.
	also func(ledger.Entry)
	tails
}

// New returns an empty Index of at most rowsMax records; 0 means RowsMax.
func New(logID string, rowsMax int) *Index {
	if rowsMax <= 0 {
		rowsMax = RowsMax
	}
	return &Index{logID: logID, rowsMax: rowsMax, first: 1, by: map[string]*postings{}}
}

// Also has a function called with each record that is read, in order, by one goroutine; a record may come
// again. It must be set before Run.
func (x *Index) Also(fn func(ledger.Entry)) { x.also = fn }

// add appends the next record's row. What is held already changes nothing; after a gap only what follows it
// is held.
func (x *Index) add(e ledger.Entry) {
	x.pass(e)
	row, subjects := RowOf(e, x.logID)
	r := held{Row: row}
	x.mu.Lock()
	if next := x.first + uint64(len(x.rows)); len(x.rows) > 0 && e.Seq != next {
		if e.Seq < next {
			x.mu.Unlock()
			return
		}
		x.rows, x.by, x.count = nil, map[string]*postings{}, 0
	}
	for _, s := range subjects {
		p := x.by[s]
		if p == nil {
			p = &postings{subject: s}
			x.by[s] = p
		}
		p.seqs = append(p.seqs, e.Seq)
		r.about = append(r.about, p)
	}
	for i, p := range r.about[:len(r.Subjects)] {
		r.Subjects[i] = p.subject // one text for all
	}
	if len(x.rows) == 0 {
		x.first = e.Seq
	}
	x.rows = append(x.rows, r)
	x.count += len(r.about)
	x.head = max(x.head, e.Seq)
	for len(x.rows) > 1 && (len(x.rows) > x.rowsMax || x.count > postingsMax) {
		x.dropFirst()
	}
	x.mu.Unlock()
	x.tell(r.Row, subjects)
}

// RowOf is the row of a record, and all its subjects, of which the row shows some.
func RowOf(e ledger.Entry, logID string) (Row, []string) {
	text, subjects := read(e, logID)
	return Row{Seq: e.Seq, Time: e.Time.UTC(), Service: e.Service, Mode: e.Mode, Kind: e.Kind.String(), Decision: audit.IsDecision(e), Text: clip(text, textMax),
		Subjects: append([]string{}, subjects[:min(len(subjects), subjectsMax)]...)}, subjects
}

// read describes a record. One that cannot be described must not end the process that it shares with services
// which decide.
func read(e ledger.Entry, logID string) (text string, subjects []string) {
	defer func() {
		if recover() != nil {
			text, subjects = e.Kind.String()+": a record that this version cannot describe", e.Subjects
		}
	}()
	return audit.Describe(e, logID), audit.Mentions(e, logID)
}

// pass calls also. It must not end the process either.
func (x *Index) pass(e ledger.Entry) {
	defer func() { _ = recover() }()
	if x.also != nil {
		x.also(e)
	}
}

func (x *Index) dropFirst() {
	for _, p := range x.rows[0].about {
		p.seqs = p.seqs[1:]
		if len(p.seqs) == 0 {
			delete(x.by, p.subject)
		}
	}
	x.count -= len(x.rows[0].about)
	x.rows[0] = held{}
	x.rows = x.rows[1:]
	x.first++
}

// reset empties the Index: the records that follow what it holds cannot be had.
func (x *Index) reset() {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.rows, x.by, x.count = nil, map[string]*postings{}, 0
}

// Extent is from where to where the Index reaches, and the head of the log as last seen: while last is below
// it, the Index is still being filled. last is below first if it is empty.
func (x *Index) Extent() (first, last, head uint64) {
	x.mu.RLock()
	defer x.mu.RUnlock()
	return x.first, x.first + uint64(len(x.rows)) - 1, x.head
}

// List returns up to limit rows that the filter wants, newest first, below a sequence; 0: from the newest on.
// more reports that there may be others further back.
func (x *Index) List(f Filter, below uint64, limit int) (list []Row, more bool) {
	x.mu.RLock()
	defer x.mu.RUnlock()
	end := x.first + uint64(len(x.rows))
	if below == 0 || below > end {
		below = end
	}
	list = []Row{}
	take := func(seq uint64) bool {
		r := &x.rows[seq-x.first].Row
		if !f.Wants(r) {
			return true
		}
		if more = len(list) == limit; more {
			return false
		}
		list = append(list, *r)
		return true
	}
	if f.Object != "" {
		p := x.by[f.Object]
		if p == nil {
			return list, false
		}
		for i := len(p.seqs) - 1; i >= 0; i-- {
			if p.seqs[i] < below && !take(p.seqs[i]) {
				break
			}
		}
		return list, more
	}
	for seq := below - 1; seq >= x.first && seq > 0; seq-- {
		if !take(seq) {
			break
		}
	}
	return list, more
}

// About returns the sequences of the newest records, at most limit, that are about any of the subjects, in
// order. cut reports that there are more.
func (x *Index) About(subjects []string, limit int) (seqs []uint64, cut bool) {
	x.mu.RLock()
	for _, s := range subjects {
		if p := x.by[s]; p != nil {
			seqs = append(seqs, p.seqs[max(0, len(p.seqs)-limit-1):]...)
		}
	}
	x.mu.RUnlock()
	slices.Sort(seqs)
	seqs = slices.Compact(seqs)
	if cut = len(seqs) > limit; cut {
		seqs = seqs[len(seqs)-limit:]
	}
	return seqs, cut
}

// clip cuts a text between letters.
func clip(s string, n int) string {
	if len(s) <= n {
		return s
	}
	for n > 0 && s[n]&0xC0 == 0x80 {
		n--
	}
	return s[:n] + "…"
}
