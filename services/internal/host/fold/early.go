package fold

import (
	"maps"
	"sync"
	"time"

	"millwright/store"
)

// earlyMax bounds the own records that wait for the ones before them, earlyFor how long: the watch brings
// them too, and a log that is restored from a backup goes on with other records.
const (
	earlyMax = 1024
	earlyFor = 5 * time.Second
)

// early are records of this process that were stored before the Ledger had the ones before them: when many
// effects append at once, their answers arrive in no order. Safe for concurrent use.
type early struct {
	mu      sync.Mutex
	records map[uint64]earlyRecord
}

type earlyRecord struct {
	store.Record
	at time.Time
}

// keep a record. What there is no room for comes by the watch.
func (e *early) keep(rec store.Record) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.records == nil {
		e.records = map[uint64]earlyRecord{}
	}
	if len(e.records) < earlyMax {
		e.records[rec.Seq] = earlyRecord{rec, time.Now()}
	}
}

// take returns the record that follows one, if it is kept, and forgets it, all before and all that are too
// old.
func (e *early) take(folded uint64) (store.Record, bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	next, ok := e.records[folded+1]
	ok = ok && time.Since(next.at) < earlyFor
	maps.DeleteFunc(e.records, func(seq uint64, r earlyRecord) bool { return seq <= folded+1 || time.Since(r.at) >= earlyFor })
	return next.Record, ok
}
