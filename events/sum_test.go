package events

import (
	"strings"
	"testing"
)

// Watcher and readers compare sums across versions: the hash never changes.
func TestSumsAreTheSameInEveryVersion(t *testing.T) {
	var a, b Sum
	a.Add("default/web-1", "8e4d7b12-0000-4000-8000-000000000001", "1001")
	b.AddIn("default", "web-1", "8e4d7b12-0000-4000-8000-000000000001", "1001")
	if want := (Sum{Count: 1, Hash: 12156124708762789455}); a != want || b != want {
		t.Errorf("%+v and %+v, want %+v", a, b, want)
	}
	long := strings.Repeat("x", 5000)
	a.Add(long, "u", "1")
	a.Remove(long, "u", "1")
	if a != b {
		t.Errorf("%+v after a long name came and went, want %+v", a, b)
	}
}
