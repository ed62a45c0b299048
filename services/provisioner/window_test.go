package provisioner_test

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/rs/zerolog"
	"k8s.io/apimachinery/pkg/types"

	"millwright/planner"
	"millwright/planner/ledger"
	"millwright/planner/plannertest"
	"millwright/services/internal/host/hosttest"
	"millwright/services/provisioner"
)

// played is the result of a burst.
type played struct {
	price  int64 // of all claims, micro USD per hour
	rounds int
}

// burst plays 1,000 pods of mixed sizes that arrive in groups over some seconds, as rollouts do, with a batch
// idle duration. Each NodeClaim exists soon after it was planned, so that later rounds find little to widen.
func burst(t *testing.T, seed uint64, idle time.Duration) (p played) {
	t.Helper()
	hosttest.Run(t, ledger.ServiceProvisioner, ledger.ModeActive, func(r *hosttest.Rig) {
		r.See(plannertest.WithCatalogue()...)
		r.See(plannertest.Pool("general"))
		s := provisioner.New(r.Host, provisioner.Deps{Logger: zerolog.Nop()})
		settle := func(d time.Duration) {
			for ; d > 0; d -= 50 * time.Millisecond {
				r.Settle(s, 50*time.Millisecond)
				for _, e := range r.Entries(ledger.KindProvisioningPlanned)[p.rounds:] {
					p.rounds++
					p.price += create(r, e)
				}
			}
		}
		draw := rand.New(rand.NewPCG(seed, 0))
		pick := func(of ...string) string { return of[draw.IntN(len(of))] }
		for n := 0; n < 1000; {
			for range min(1+draw.IntN(60), 1000-n) {
				r.See(pending(fmt.Sprint("p", n), plannertest.Requests(
					"cpu", pick("100m", "250m", "500m", "1", "1500m"), "memory", pick("128Mi", "512Mi", "1Gi", "2Gi", "4Gi"))))
				n++
			}
			settle(time.Duration(draw.ExpFloat64() * float64(150*time.Millisecond)))
		}
		settle(3 * time.Second)
	}, func(o *planner.Options) { o.BatchIdleDuration = idle })
	return p
}

// create makes the NodeClaims of a round, as lifecycle does, and returns their price.
func create(r *hosttest.Rig, e ledger.Entry) (price int64) {
	for i, c := range e.Payload.(*ledger.ProvisioningPlanned).Claims {
		price += c.Cheapest.MicroUSDPerHour
		name := ledger.ClaimName(plannertest.LogID, c.NodePool, e.Seq, i)
		r.Append(ledger.KindClaimCreated, &ledger.ClaimCreated{Claim: name, UID: types.UID("uid-" + name)}, "claim/"+name)
	}
	return price
}

// TestABurstIsPackedNoWorseThanWithALongWindow is how the default idle duration was chosen; -v prints what
// others cost. The default must also give a lone pod its NodeClaim within 0.3 s: see
// TestALonePodIsPlannedSoon.
func TestABurstIsPackedNoWorseThanWithALongWindow(t *testing.T) {
	idles := []time.Duration{20 * time.Millisecond, 50 * time.Millisecond, planner.DefaultOptions().BatchIdleDuration, time.Second}
	sums := make([]played, len(idles))
	for seed := range uint64(3) {
		for i, idle := range idles {
			p := burst(t, seed, idle)
			sums[i].price += p.price
			sums[i].rounds += p.rounds
		}
	}
	for i, idle := range idles {
		t.Logf("idle duration %s: %d rounds, $%.3f/h", idle, sums[i].rounds, float64(sums[i].price)/1e6)
	}
	if ours, long := sums[2].price, sums[3].price; ours > long+long/100 {
		t.Errorf("%d micro USD/h with the default, %d with an idle duration of 1 s", ours, long)
	}
}
