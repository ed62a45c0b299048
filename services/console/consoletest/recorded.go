package consoletest

import (
	"testing"

	"millwright/planner/ledger"
	"millwright/store/audit"
	"millwright/store/audit/recording"
	"millwright/store/memlog"
)

// Recorded is a log that can be appended to, with the records of a recording, which has the observations.
func Recorded(t testing.TB, file string) (*memlog.Log, *recording.Recording) {
	t.Helper()
	return recordedAs(t, file, func(m string) string { return m })
}

// Shadowed is Recorded as if Millwright had been in mode shadow, and somebody else had done the same.
func Shadowed(t testing.TB, file string) (*memlog.Log, *recording.Recording) {
	t.Helper()
	return recordedAs(t, file, func(string) string { return string(ledger.ModeShadow) })
}

func recordedAs(t testing.TB, file string, mode func(string) string) (*memlog.Log, *recording.Recording) {
	t.Helper()
	rec, err := recording.Open(file)
	if err != nil {
		t.Fatal(err)
	}
	var log *memlog.Log
	for next := uint64(1); ; {
		page, err := rec.Read(t.Context(), next, 0)
		if err != nil {
			t.Fatal(err)
		}
		if len(page) == 0 {
			return log, rec
		}
		for _, r := range page {
			e, err := audit.Decode(r)
			if err != nil {
				t.Fatal(err)
			}
			if g, ok := e.Payload.(*ledger.Genesis); ok {
				log, err = memlog.Open(memlog.Config{Cluster: g.Cluster, LogID: g.LogID})
			} else {
				r.Draft.Mode = mode(r.Draft.Mode)
				_, err = log.Append(t.Context(), r.Draft)
			}
			if err != nil {
				t.Fatal(err)
			}
			next = r.Seq + 1
		}
	}
}
