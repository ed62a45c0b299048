package lifecycle

import (
	"bytes"
	"strings"
	"testing"

	"github.com/rs/zerolog"

	karpv1 "millwright/api/karpenter/v1"
	awsv1 "millwright/api/karpenteraws/v1"
	"millwright/planner/ledger"
)

// TestStaticClaimIsLaunched: claims of static NodePools name no instance types; the launch chooses among all
// that the template allows.
func TestStaticClaimIsLaunched(t *testing.T) {
	r := newRig(t)
	r.change("default", func(p *karpv1.NodePool) { p.Spec.Replicas = new(int64) })
	rec := r.other(ledger.ServiceProvisioner, ledger.KindProvisioningPlanned, &ledger.ProvisioningPlanned{Claims: []ledger.PlannedClaim{{
		NodePool: "default", NodePoolUID: "pool-uid", NodeClassRef: karpv1.NodeClassReference{Group: awsv1.Group, Kind: "EC2NodeClass", Name: "default"},
		Labels: map[string]string{karpv1.NodePoolLabelKey: "default"}, Requirements: []karpv1.NodeSelectorRequirementWithMinValues{},
	}}}, ledger.PoolAggregate("default"))
	name := ledger.ClaimName(r.log.ID(), "default", rec.Seq, 0)
	r.run("node ready", r.ready(name))
	if n := *r.kube.pools["default"].Status.Nodes; n != 1 {
		r.health() // lets the sums be written
		n = *r.kube.pools["default"].Status.Nodes
		if n != 1 {
			t.Errorf("status.nodes = %d", n)
		}
	}
}

// TestCreatedNodeClaimsAreLogged: the line that users and tools look for.
func TestCreatedNodeClaimsAreLogged(t *testing.T) {
	r := newRig(t)
	var lines bytes.Buffer
	r.with(func(d *Deps) { d.Logger = zerolog.New(&lines) })
	name := r.plan()
	r.run("node ready", r.ready(name))
	want := `"nodeclaim":"` + name + `","nodepool":"default","requests":{"cpu":"100m"},"instance_types":["c5.large","m5.large"],`
	if n := strings.Count(lines.String(), want); n != 1 || !strings.Contains(lines.String(), `"message":"created nodeclaim"`) {
		t.Errorf("%d lines with %s in\n%s", n, want, lines.String())
	}
}
