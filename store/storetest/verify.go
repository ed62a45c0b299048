package storetest

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"millwright/store"
)

var verifyTests = map[string]func(*testing.T, Harness){
	"an untouched chain verifies to its head": func(t *testing.T, h Harness) {
		fill(t, h.Log, 20)
		if seq, err := h.Log.Verify(bounded(t)); err != nil || seq != 21 {
			t.Fatalf("verified to %d, %v", seq, err)
		}
	},
	"an empty log verifies": func(t *testing.T, h Harness) {
		if seq, err := h.Log.Verify(bounded(t)); err != nil || seq != 1 {
			t.Fatalf("verified to %d, %v", seq, err)
		}
	},
	"a changed record is found":                                  faultAt(5, func(x Tamper) { x.Change(5) }),
	"an unparsable record is found":                              faultAt(5, func(x Tamper) { x.Garble(5) }),
	"a removed record is found":                                  faultAt(5, func(x Tamper) { x.Remove(5) }),
	"reordered records are found":                                faultAt(4, func(x Tamper) { x.Swap(4, 8) }),
	"a changed record with a new hash is found at its successor": faultAt(6, func(x Tamper) { x.Reseal(5) }),
	"a changed last record with a new hash is found":             faultAt(10, func(x Tamper) { x.Reseal(10) }),
	"a removed last record is found":                             faultAt(10, func(x Tamper) { x.Remove(10) }),
	"a changed genesis is found":                                 faultAt(1, func(x Tamper) { x.Change(1) }),
}

// faultAt expects that ten records, tampered with, verify up to the one before seq.
func faultAt(seq uint64, tamper func(Tamper)) func(*testing.T, Harness) {
	return func(t *testing.T, h Harness) {
		fill(t, h.Log, 9)
		tamper(h.Tamper)
		good, err := h.Log.Verify(bounded(t))
		wantFault(t, err, seq)
		// The end of the chain can only be compared with the head: then the last record itself is in doubt.
		if good != seq-1 && good != seq {
			t.Fatalf("verified to %d, want %d: %v", good, seq-1, err)
		}
	}
}

// wantFault expects ErrCorrupt that names seq.
func wantFault(t *testing.T, err error, seq uint64) {
	t.Helper()
	if !errors.Is(err, store.ErrCorrupt) || !strings.Contains(err.Error(), fmt.Sprintf("record %d:", seq)) {
		t.Fatalf("got error %v, want a fault of record %d", err, seq)
	}
}
