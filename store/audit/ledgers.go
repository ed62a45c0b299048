package audit

import (
	"fmt"

	"millwright/planner/ledger"
	"millwright/planner/ledger/names"
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
	// replaced names of the log; see Renamed.
	replaced names.Replaced
}

// newLedgers begins with a Ledger, or with an empty one if it is nil.
func newLedgers(begin *ledger.Ledger, entries []ledger.Entry, replaced names.Replaced) (ledgers, error) {
	l := ledgers{entries: entries, kept: map[uint64][]byte{}, replaced: replaced}
	if begin == nil {
		err := l.set(nil)
		return l, err
	}
	data, err := begin.Checkpoint()
	if err != nil {
		return l, err
	}
	l.first, l.begin = begin.Seq(), data
	err = l.set(data)
	return l, err
}

// set the current Ledger to a checkpoint; nil is an empty one.
func (l *ledgers) set(data []byte) (err error) {
	l.current = ledger.New("")
	if data != nil {
		if l.current, err = ledger.Restore(data); err != nil {
			return err
		}
	}
	ledger.Replace(l.current, l.replaced)
	return nil
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

func (l *ledgers) back(seq uint64) error {
	data := l.kept[seq/ledgerEvery]
	if data == nil {
		data = l.begin
	}
	return l.set(data)
}
