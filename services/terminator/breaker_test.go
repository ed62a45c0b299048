package terminator_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/rs/zerolog"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	karpv1 "millwright/api/karpenter/v1"
	"millwright/planner/ledger"
	"millwright/planner/plannertest"
	"millwright/services/internal/host/hosttest"
	"millwright/services/internal/service"
	"millwright/services/terminator"
)

// TestDeadlinesThatComeAtOnceArePaced: somebody deletes 20 nodes whose protected pods must go by one
// deadline. No more than five are forced within a minute, an alarm says so once, and in the end all are.
func TestDeadlinesThatComeAtOnceArePaced(t *testing.T) {
	hosttest.Run(t, ledger.ServiceTerminator, ledger.ModeActive, func(r *hosttest.Rig) {
		const nodes = 20
		for i := range nodes {
			name := fmt.Sprintf("n%02d", i)
			r.AddNode(name, "general")
			claim := r.Kube.GetClaim(name + "-claim")
			claim.DeletionTimestamp = &metav1.Time{Time: r.Now()}
			claim.Annotations = map[string]string{karpv1.TerminationTimestampAnnotationKey: r.Now().Add(time.Minute).Format(time.RFC3339)}
			r.Kube.Put(claim)
			r.Kube.Put(plannertest.Pod("keep-"+name, plannertest.On(name), plannertest.Annotation(karpv1.DoNotDisruptAnnotationKey, "true")))
		}
		registry := prometheus.NewRegistry()
		s := terminator.New(r.Host, terminator.Deps{Cluster: r.Kube, Kube: r.Kube, Logger: zerolog.Nop(), Registerer: registry})
		r.Settle(s, 25*time.Second)
		if n := len(deletes(r)); n > 0 {
			t.Fatalf("%d pods deleted before the deadline comes", n)
		}
		for minute := 1; minute <= 4; minute++ {
			r.Settle(s, time.Minute)
			forced := map[string]bool{}
			for _, c := range deletes(r) {
				forced[c[len(c)-3:]] = true
			}
			if len(forced) > 5*minute || len(forced) < 5*minute-5 {
				t.Errorf("%d nodes were forced within %d minutes", len(forced), minute)
			}
		}
		r.Settle(s, time.Minute)
		if n := len(r.Entries(ledger.KindNodeDrained)); n != nodes {
			t.Errorf("%d of %d nodes are drained in the end", n, nodes)
		}
		alarms := r.Entries(ledger.KindAlarmRaised)
		if len(alarms) != 1 || alarms[0].Payload.(*ledger.AlarmRaised).Reason != "drain_deadline_paced" {
			t.Errorf("alarms %+v", alarms)
		}
		if n := testutil.ToFloat64(service.NewAlarmCounter(registry).WithLabelValues("drain_deadline_paced")); n != 1 {
			t.Errorf("millwright_lifecycle_alarms_total is %v", n)
		}
		paced := 0
		for _, e := range r.Entries(ledger.KindDrainTierStarted) {
			if e.Payload.(*ledger.DrainTierStarted).Paced {
				paced++
			}
		}
		t.Logf("%d paced tiers recorded, %d in all", paced, len(r.Entries(ledger.KindDrainTierStarted)))
	})
}
