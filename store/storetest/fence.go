package storetest

import (
	"testing"

	"millwright/store"
)

var fenceTests = map[string]func(*testing.T, Harness){
	"a leader appends, a deposed one is fenced": func(t *testing.T, h Harness) {
		old := lead(t, h.Elector(), "disruptor", "old")
		d := draft(1)
		d.Lease = old.Lease()
		if r := mustAppend(t, h.Log, d); r.Lease != (store.Lease{}) {
			t.Fatalf("the record keeps the lease %v", r.Lease)
		}
		h.Expire(old)
		successor := lead(t, h.Elector(), "disruptor", "new")
		_, err := h.Log.Append(bounded(t), d)
		wantError(t, err, store.ErrFenced)
		d.Lease = successor.Lease()
		mustAppend(t, h.Log, d)
	},
	"a lease that never was is fenced": func(t *testing.T, h Harness) {
		l := lead(t, h.Elector(), "terminator", "me")
		for _, lease := range []store.Lease{
			{Key: l.Lease().Key, Revision: l.Lease().Revision + 1}, {Key: "no/such/key", Revision: 7}, {Revision: 7},
		} {
			_, err := h.Log.Append(bounded(t), store.Draft{Lease: lease})
			wantError(t, err, store.ErrFenced)
		}
	},
	"a fenced draft does not fail the others of a group": func(t *testing.T, h Harness) {
		dead := lead(t, h.Elector(), "lifecycle", "dead")
		if err := dead.Resign(bounded(t)); err != nil {
			t.Fatal(err)
		}
		alive := lead(t, h.Elector(), "lifecycle", "alive")
		stored, refused := race(t, 40, func(i int) error {
			d := draft(i)
			d.Lease = alive.Lease()
			if i%4 == 0 {
				d.Lease = dead.Lease()
			}
			_, err := h.Log.Append(bounded(t), d)
			return err
		}, store.ErrFenced)
		if stored != 30 || refused != 10 {
			t.Fatalf("%d stored, %d fenced; want 30 and 10", stored, refused)
		}
	},
}

func lead(t *testing.T, e store.Elector, service, identity string) store.Leadership {
	t.Helper()
	l, err := e.Campaign(bounded(t), store.Candidacy{Service: service, Identity: identity, Info: map[string]string{"version": "1", "host": identity}})
	if err != nil {
		t.Fatalf("campaign: %v", err)
	}
	t.Cleanup(func() { _ = l.Resign(bounded(t)) })
	return l
}
