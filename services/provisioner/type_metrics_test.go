package provisioner_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/rs/zerolog"

	karpv1 "millwright/api/karpenter/v1"
	"millwright/events"
	"millwright/planner/ledger"
	"millwright/planner/plannertest"
	"millwright/services/internal/host/hosttest"
	"millwright/services/provisioner"
)

// The types that nodes have are priced, in every zone and capacity type, so that what nodes cost, and would
// cost on demand, can be joined; those of all others have no series.
func TestTypesOfNodesHavePrices(t *testing.T) {
	hosttest.Run(t, ledger.ServiceProvisioner, ledger.ModeActive, func(r *hosttest.Rig) {
		registry := prometheus.NewRegistry()
		s := provisioner.New(r.Host, provisioner.Deps{Logger: zerolog.Nop(), Registerer: registry})
		catalogue, prices := plannertest.Catalogue("default", plannertest.Types)
		r.See(plannertest.Pool("general"), plannertest.NodeClass("default"), catalogue, prices)
		r.AddNode("n", "general") // m5.xlarge
		_, _ = r.Step(s)
		for name, want := range map[string]string{
			"price_estimate": `
				# HELP karpenter_cloudprovider_instance_type_offering_price_estimate USD per hour of an offering of an instance type that nodes have.
				# TYPE karpenter_cloudprovider_instance_type_offering_price_estimate gauge
				karpenter_cloudprovider_instance_type_offering_price_estimate{capacity_type="on-demand",instance_type="m5.xlarge",zone="us-west-2a"} 0.192
				karpenter_cloudprovider_instance_type_offering_price_estimate{capacity_type="on-demand",instance_type="m5.xlarge",zone="us-west-2b"} 0.192
				karpenter_cloudprovider_instance_type_offering_price_estimate{capacity_type="on-demand",instance_type="m5.xlarge",zone="us-west-2c"} 0.192
				karpenter_cloudprovider_instance_type_offering_price_estimate{capacity_type="spot",instance_type="m5.xlarge",zone="us-west-2a"} 0.0768
				karpenter_cloudprovider_instance_type_offering_price_estimate{capacity_type="spot",instance_type="m5.xlarge",zone="us-west-2b"} 0.0768
				karpenter_cloudprovider_instance_type_offering_price_estimate{capacity_type="spot",instance_type="m5.xlarge",zone="us-west-2c"} 0.0768
			`,
		} {
			if err := testutil.GatherAndCompare(registry, strings.NewReader(want), "karpenter_cloudprovider_instance_type_offering_"+name); err != nil {
				t.Error(err)
			}
		}
		for name, want := range map[string]int{"offering_available": 6, "cpu_cores": 1, "memory_bytes": 1} {
			if n, err := testutil.GatherAndCount(registry, "karpenter_cloudprovider_instance_type_"+name); err != nil || n != want {
				t.Errorf("%s has %d series, want %d: %v", name, n, want, err)
			}
		}
	})
}

// Several reservations may be for one type and zone: together they are available while one of them has room.
func TestOfferingsWithOneSeriesAreAvailableIfOneIs(t *testing.T) {
	for name, c := range map[string]struct {
		free []int64
		want string
	}{"all used up": {[]int64{0, 0}, "0"}, "the second has room": {[]int64{0, 3}, "1"}, "the first has room": {[]int64{3, 0}, "1"}} {
		t.Run(name, func(t *testing.T) {
			hosttest.Run(t, ledger.ServiceProvisioner, ledger.ModeActive, func(r *hosttest.Rig) {
				registry := prometheus.NewRegistry()
				s := provisioner.New(r.Host, provisioner.Deps{Logger: zerolog.Nop(), Registerer: registry})
				catalogue, prices := plannertest.Catalogue("default", plannertest.Types)
				of := slices.IndexFunc(catalogue.Catalog.InstanceTypes, func(t events.CatalogInstanceType) bool { return t.Name == "m5.xlarge" })
				offerings := []events.CatalogOffering{}
				for i := range c.free {
					offerings = append(offerings, events.CatalogOffering{Zone: "us-west-2a", CapacityType: karpv1.CapacityTypeReserved,
						Available: true, Reservation: &events.CatalogReservation{ID: fmt.Sprint("cr-", i), Free: &c.free[i]}})
				}
				catalogue.Catalog.InstanceTypes[of].Offerings = offerings
				r.See(plannertest.Pool("general"), plannertest.NodeClass("default"), catalogue, prices)
				r.AddNode("n", "general") // m5.xlarge
				_, _ = r.Step(s)
				want := `
					# HELP karpenter_cloudprovider_instance_type_offering_available 1 if an offering of an instance type that nodes have could be launched now, else 0.
					# TYPE karpenter_cloudprovider_instance_type_offering_available gauge
					karpenter_cloudprovider_instance_type_offering_available{capacity_type="reserved",instance_type="m5.xlarge",zone="us-west-2a"} ` + c.want + "\n"
				if err := testutil.GatherAndCompare(registry, strings.NewReader(want), "karpenter_cloudprovider_instance_type_offering_available"); err != nil {
					t.Error(err)
				}
			})
		})
	}
}
