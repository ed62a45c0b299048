package ledger_test

import (
	"testing"
	"time"

	"millwright/planner/ledger"
	"millwright/planner/memory"
)

// What memory nodes were found to have is folded from records, kept by checkpoints, and seen no later than
// the newest record, whatever a clock that was far ahead has written (ec2 §1.2).
func TestDiscoveredMemoryIsKept(t *testing.T) {
	l, now := ledger.New(logID), start
	found := func(bytes int64) {
		t.Helper()
		if err := l.Apply(ledger.Entry{Seq: l.Seq() + 1, Time: now, Now: now, Mode: ledger.ModeActive, Kind: ledger.KindMemoryDiscovered,
			Payload: &ledger.MemoryDiscovered{InstanceType: "m5.large", Images: "images", Bytes: bytes}}); err != nil {
			t.Fatal(err)
		}
	}
	counts := func(l *ledger.Ledger, bytes int64, seen time.Time) {
		t.Helper()
		if a, _ := l.Memory().Get(memory.Key{InstanceType: "m5.large", Images: "images"}); a.Bytes != bytes || !a.Seen.Equal(seen) {
			t.Errorf("m5.large has %d, seen at %s; want %d, %s", a.Bytes, a.Seen, bytes, seen)
		}
	}
	counts(l, 0, time.Time{})
	found(800)
	before := l.Version()
	now = now.Add(time.Hour)
	found(790)
	found(810)
	counts(l, 790, now)
	counts(before, 800, start)
	restored, err := ledger.Restore(mustCheckpoint(t, l))
	if err != nil || restored.Digest() != l.Digest() {
		t.Fatalf("a checkpoint lost it: %v", err)
	}
	counts(restored, 790, now)
	now = now.Add(1000 * time.Hour)
	found(780)
	now = now.Add(-900 * time.Hour) // that was a clock far ahead
	if err := l.Apply(ledger.Entry{Seq: l.Seq() + 1, Time: now, Now: now, Mode: ledger.ModeActive, Kind: ledger.KindAlarmRaised, Payload: &ledger.AlarmRaised{}}); err != nil {
		t.Fatal(err)
	}
	counts(l, 780, now)
}
