package world

import (
	"testing"
	"time"

	"millwright/events"
)

// TestCatalogueSaysWhenReservationsWereCounted: the same catalogue, published again, only moves the time; a checkpoint keeps it.
func TestCatalogueSaysWhenReservationsWereCounted(t *testing.T) {
	raw := &events.Catalog{NodeClass: "default", InstanceTypes: []events.CatalogInstanceType{{Name: "m5.large"}}}
	at := time.Date(2026, 4, 1, 12, 0, 0, 0, time.UTC)
	w := New()
	publish := func(counter uint64, at time.Time) {
		w.Apply(counter, events.Observation{Epoch: 1, Counter: counter, Kind: events.KindCatalog, Op: events.OpUpsert, UID: "default", Name: "default",
			Object: &events.CatalogRef{NodeClass: "default", Hash: "h", ReservationsAt: at, Catalog: raw}})
	}
	publish(1, at)
	first := w.Catalog("default")
	publish(2, at.Add(time.Minute))
	second := w.Catalog("default")
	if !first.ReservationsAt.Equal(at) || !second.ReservationsAt.Equal(at.Add(time.Minute)) {
		t.Errorf("counted at %s, then %s", first.ReservationsAt, second.ReservationsAt)
	}
	if first.Types[0] != second.Types[0] {
		t.Error("an equal catalogue was built again")
	}
	data, err := w.Checkpoint()
	if err != nil {
		t.Fatal(err)
	}
	restored, err := Restore(data)
	if err != nil || !restored.Catalog("default").ReservationsAt.Equal(at.Add(time.Minute)) {
		t.Errorf("restored: %v, counted at %s", err, restored.Catalog("default").ReservationsAt)
	}
}
