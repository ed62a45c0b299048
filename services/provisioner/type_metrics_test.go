package provisioner_test

import (
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/rs/zerolog"

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
