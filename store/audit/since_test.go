package audit_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"millwright/store"
	"millwright/store/audit"
)

// minutely is a log with a record a minute, of which those before first are gone. off are the clocks that
// were wrong.
type minutely struct {
	first, head uint64
	off         map[uint64]time.Duration
	reads       int
}

func (l *minutely) at(seq uint64) time.Time {
	return time.Unix(0, 0).Add(time.Duration(seq) * time.Minute).Add(l.off[seq])
}

func (l *minutely) Read(_ context.Context, from uint64, limit int) (list []store.Record, err error) {
	l.reads++
	if from < l.first {
		return nil, fmt.Errorf("record %d: %w", from, store.ErrCompacted)
	}
	for seq := from; seq <= l.head && len(list) < limit; seq++ {
		list = append(list, store.Record{Seq: seq, Draft: store.Draft{Time: l.at(seq)}})
	}
	return list, nil
}

func TestTheFirstRecordSinceATime(t *testing.T) {
	const head = 10_000
	for about, off := range map[string]map[uint64]time.Duration{
		"no clock was wrong":                    nil,
		"one was a day behind, in the middle":   {head/2 + 1: -24 * time.Hour},
		"five in a row were a day behind there": {4999: -24 * time.Hour, 5000: -24 * time.Hour, 5001: -24 * time.Hour, 5002: -24 * time.Hour, 5003: -24 * time.Hour},
		"one was a month ahead":                 {2501: 31 * 24 * time.Hour, 5001: 31 * 24 * time.Hour, 5002: 31 * 24 * time.Hour},
	} {
		for _, first := range []uint64{1, 2500, 4990, 9999} {
			log := &minutely{first: first, head: head, off: off}
			for _, seq := range []uint64{1, 2, 14, 16, 31, 33, 2000, 3700, 4800, 5200, 7512, 9980, 9998, 9999, 10_000, 10_001, 20_000} {
				log.reads = 0
				want := min(max(seq, first), head+1)
				got, err := audit.FirstSince(t.Context(), log, head, time.Unix(0, 0).Add(time.Duration(seq)*time.Minute))
				if err != nil || got != want {
					t.Errorf("%s, records from %d on: the first since that of %d is %d, %v", about, first, seq, got, err)
				}
				if log.reads > 80 {
					t.Errorf("%s: %d reads", about, log.reads)
				}
			}
		}
	}
	for head := range uint64(40) {
		log := &minutely{first: 1, head: head}
		for seq := range head + 2 {
			if got, err := audit.FirstSince(t.Context(), log, head, log.at(seq)); err != nil || got != max(1, seq) {
				t.Errorf("of %d records the first since that of %d is %d, %v", head, seq, got, err)
			}
		}
	}
}
