package audit

import (
	"fmt"

	"millwright/planner/ledger"
)

// ledgerEvery is the number of records between the Ledgers that are kept for going back.
const ledgerEvery = 512

// ledgers gives the Ledger as of any record. Going forward is a fold; going back restores the last kept one.
type ledgers struct {
	// entries follow the record first.
	entries []ledger.Entry
	first   uint64
	// begin is the checkpoint at first; nil if first is 0.
	begin   []byte
	current *ledger.Ledger
	// kept are checkpoints by sequence/ledgerEvery.
	kept map[uint64][]byte
}

// newLedgers begins with a Ledger, or with an empty one if it is nil.
func newLedgers(begin *ledger.Ledger, entries []ledger.Entry) (ledgers, error) {
	l := ledgers{entries: entries, current: ledger.New(""), kept: map[uint64][]byte{}}
	if begin == nil {
		return l, nil
	}
	data, err := begin.Checkpoint()
	if err != nil {
		return l, err
	}
	l.first, l.begin = begin.Seq(), data
	l.current, err = ledger.Restore(data)
	return l, err
}

// at returns the Ledger with the records up to seq folded. It is valid until the next call.
func (l *ledgers) at(seq uint64) (*ledger.Ledger, error) {
	if last := l.first + uint64(len(l.entries)); seq > last {
		return nil, fmt.Errorf("ledger at %d: the log read ends at %d", seq, last)
	}
	if seq < l.first {
		return nil, fmt.Errorf("the ledger at record %d is before the first checkpoint read, of record %d", seq, l.first)
	}
	if seq < l.current.Seq() {
		if err := l.back(seq); err != nil {
			return nil, err
		}
	}
	for l.current.Seq() < seq {
		if err := l.current.Apply(l.entries[l.current.Seq()-l.first]); err != nil {
			return nil, err
		}
		if err := l.keepCheckpoint(); err != nil {
			return nil, err
		}
	}
	return l.current, nil
}

func (l *ledgers) keepCheckpoint() error {
	n := l.current.Seq() / ledgerEvery
	if l.current.Seq()%ledgerEvery != 0 || l.kept[n] != nil {
		return nil
	}
	data, err := l.current.Checkpoint()
	l.kept[n] = data
	return err
}

func (l *ledgers) back(seq uint64) (err error) {
	data := l.kept[seq/ledgerEvery]
	if data == nil {
		data = l.begin
	}
	if data == nil {
		l.current = ledger.New("")
		return nil
	}
	l.current, err = ledger.Restore(data)
	return err
}
