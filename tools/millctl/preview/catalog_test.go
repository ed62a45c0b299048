package preview

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"millwright/events"
	watcherec2 "millwright/services/watcher/ec2"
)

// Offerings of one zone and capacity type are told apart: by reservation, and by the partition of a placement
// group.
func TestOfferingsAreToldApart(t *testing.T) {
	free := int64(3)
	offer := func(available bool) *watcherec2.Offer {
		o := &watcherec2.Offer{Types: make([]watcherec2.OfferedType, 1)}
		it := &o.Types[0]
		it.Name = "m5.large"
		it.Offerings = []events.CatalogOffering{
			{Zone: "a", CapacityType: "on-demand", Available: true, PlacementGroup: "pg-1", Partition: 1},
			{Zone: "a", CapacityType: "on-demand", Available: available, PlacementGroup: "pg-1", Partition: 2},
			{Zone: "a", CapacityType: "reserved", Available: true, Reservation: &events.CatalogReservation{ID: "cr-1", Free: &free}},
			{Zone: "a", CapacityType: "reserved", Available: true, Reservation: &events.CatalogReservation{ID: "cr-2"}},
		}
		it.Prices = make([]int64, len(it.Offerings))
		return o
	}
	var out bytes.Buffer
	if err := NewCatalog(offer(true)).WriteJSON(&out); err != nil {
		t.Fatal(err)
	}
	var back Catalog
	if err := json.Unmarshal(out.Bytes(), &back); err != nil {
		t.Fatal(err)
	}
	list := back.InstanceTypes[0].Offerings
	if list[1].PlacementGroup != "pg-1" || list[1].Partition != 2 || list[2].ReservationID != "cr-1" || *list[2].ReservationCapacity != 3 || list[3].ReservationCapacity != nil {
		t.Errorf("%s", out.String())
	}
	old := filepath.Join(t.TempDir(), "old.json")
	if err := os.WriteFile(old, out.Bytes(), 0o600); err != nil {
		t.Fatal(err)
	}
	var diff bytes.Buffer
	if err := NewCatalog(offer(false)).WriteDiff(&diff, old); err != nil {
		t.Fatal(err)
	}
	if got := diff.String(); strings.Count(got, "\n") != 1 || !strings.Contains(got, "offering a on-demand pg-1 partition 2: no price, available true -> no price, available false") {
		t.Errorf("the difference is %q", got)
	}
}
