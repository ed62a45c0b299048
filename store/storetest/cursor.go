package storetest

import (
	"strings"
	"testing"

	"millwright/store"
)

var cursorTests = map[string]func(*testing.T, Harness){
	"a cursor is what the leader kept last, and no record": func(t *testing.T, h Harness) {
		cursors := h.Log.(store.Cursors)
		before, err := h.Log.Head(bounded(t))
		if err != nil {
			t.Fatal(err)
		}
		if got, err := cursors.Cursor(bounded(t), "sink"); got != "" || err != nil {
			t.Fatalf("a cursor that nobody set is %q, %v", got, err)
		}
		l := lead(t, h.Elector(), "export", "me")
		for _, value := range []string{"7", "12"} {
			if err := cursors.SetCursor(bounded(t), l.Lease(), "sink", value); err != nil {
				t.Fatal(err)
			}
			for _, reader := range []store.Log{h.Log, h.Open()} {
				if got, err := reader.(store.Cursors).Cursor(bounded(t), "sink"); got != value || err != nil {
					t.Errorf("it is %q after it was set to %q: %v", got, value, err)
				}
			}
		}
		if got, err := cursors.Cursor(bounded(t), "another"); got != "" || err != nil {
			t.Errorf("another one is %q, %v", got, err)
		}
		if after, err := h.Log.Head(bounded(t)); after != before || err != nil {
			t.Errorf("the head moved from %v to %v, %v", before, after, err)
		}
	},
	"a deposed leader and a long value leave a cursor as it is": func(t *testing.T, h Harness) {
		cursors := h.Log.(store.Cursors)
		old := lead(t, h.Elector(), "export", "old")
		if err := cursors.SetCursor(bounded(t), old.Lease(), "sink", "7"); err != nil {
			t.Fatal(err)
		}
		wantError(t, cursors.SetCursor(bounded(t), old.Lease(), "sink", strings.Repeat("x", store.MaxCursorBytes+1)), store.ErrTooLarge)
		h.Expire(old)
		successor := lead(t, h.Elector(), "export", "new")
		wantError(t, cursors.SetCursor(bounded(t), old.Lease(), "sink", "8"), store.ErrFenced)
		wantError(t, cursors.SetCursor(bounded(t), store.Lease{}, "sink", "8"), store.ErrFenced)
		if got, err := cursors.Cursor(bounded(t), "sink"); got != "7" || err != nil {
			t.Errorf("it is %q, %v", got, err)
		}
		if err := cursors.SetCursor(bounded(t), successor.Lease(), "sink", "9"); err != nil {
			t.Error(err)
		}
	},
}
