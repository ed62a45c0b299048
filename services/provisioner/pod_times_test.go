package provisioner_test

import (
	"fmt"
	"maps"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/rs/zerolog"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"millwright/planner/ledger"
	"millwright/planner/plannertest"
	"millwright/services/internal/host/hosttest"
	"millwright/services/provisioner"
)

// served are the values of the metrics whose names begin with a prefix, by name and values of labels;
// histograms and summaries as "count sum", to the second.
func served(t *testing.T, registry *prometheus.Registry, prefix string) map[string]string {
	t.Helper()
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	values := map[string]string{}
	for _, f := range families {
		name, ok := strings.CutPrefix(f.GetName(), prefix)
		if !ok {
			continue
		}
		for _, m := range f.GetMetric() {
			key := name
			for _, l := range m.GetLabel() {
				key += " " + l.GetValue()
			}
			switch {
			case m.GetHistogram() != nil:
				values[key] = fmt.Sprint(m.GetHistogram().GetSampleCount(), " ", math.Round(m.GetHistogram().GetSampleSum()))
			case m.GetSummary() != nil:
				values[key] = fmt.Sprint(m.GetSummary().GetSampleCount(), " ", math.Round(m.GetSummary().GetSampleSum()))
			default:
				values[key] = fmt.Sprint(math.Round(m.GetGauge().GetValue()))
			}
		}
	}
	return values
}

// measured has a service that is asked for its metrics, pods' included, and lets it work on a cluster.
func measured(t *testing.T, test func(r *hosttest.Rig, s *provisioner.Service, registry *prometheus.Registry)) {
	hosttest.Run(t, ledger.ServiceProvisioner, ledger.ModeActive, func(r *hosttest.Rig) {
		registry := prometheus.NewRegistry()
		r.See(plannertest.WithCatalogue()...)
		r.See(plannertest.Pool("general"), plannertest.Node("n"))
		test(r, provisioner.New(r.Host, provisioner.Deps{Logger: zerolog.Nop(), Registerer: registry, PodMetrics: true}), registry)
	})
}

func created(at time.Time) func(*corev1.Pod) {
	return func(p *corev1.Pod) { p.CreationTimestamp = metav1.NewTime(at) }
}

// bound has a pod on a node while its containers are being started.
func bound(p *corev1.Pod) { p.Spec.NodeName = "n" }

// From its creation a pod is measured until it has a node and until it is ready, and from when a round found
// it a place; series of its own it has only as long as it waits (reference: operations §2.2).
func TestHowLongPodsWaitIsMeasured(t *testing.T) {
	measured(t, func(r *hosttest.Rig, s *provisioner.Service, registry *prometheus.Registry) {
		r.See(plannertest.Pod("old", plannertest.On("n")), plannertest.Pod("starts", bound))
		r.Settle(s, 3*time.Second)
		at := r.Now().Add(-5 * time.Second)
		r.See(pending("web", created(at)))
		_, _ = r.Step(s)
		want := map[string]string{"unbound web default": "5", "unstarted web default": "5", "provisioning_scheduling_undecided web default": "0", "unstarted starts default": "3"}
		check := func(when string) {
			t.Helper()
			got := map[string]string{}
			for key, value := range served(t, registry, "karpenter_pods_") {
				if name, ok := strings.CutSuffix(strings.Fields(key)[0], "_time_seconds"); ok {
					got[strings.Join(append([]string{name}, strings.Fields(key)[1:]...), " ")] = value
				}
			}
			if !maps.Equal(got, want) {
				t.Errorf("%s: %v, want %v", when, got, want)
			}
		}
		check("at first")
		r.Settle(s, 10*time.Second)
		want = map[string]string{"unbound web default": "15", "unstarted web default": "15", "provisioning_unbound web default": "10", "provisioning_unstarted web default": "10", "unstarted starts default": "13"}
		check("planned for")
		r.See(plannertest.Pod("web", created(at), bound), plannertest.Pod("quick", created(r.Now().Add(-time.Second)), bound), plannertest.Pod("starts", plannertest.On("n")))
		r.Settle(s, 20*time.Second)
		want = map[string]string{"unstarted web default": "35", "provisioning_unstarted web default": "30", "unstarted quick default": "21"}
		check("bound")
		r.See(plannertest.Pod("web", created(at), plannertest.On("n")))
		r.Gone(plannertest.Pod("quick"))
		r.Settle(s, time.Second)
		want = map[string]string{}
		check("ready")
		times := served(t, registry, "karpenter_pods_")
		for name, want := range map[string]string{
			"bound_duration_seconds":                "2 16", // web after fifteen, quick after one; when starts was bound is not known
			"startup_duration_seconds":              "2 48", // web after thirty-five, starts after thirteen
			"provisioning_bound_duration_seconds":   "1 10",
			"provisioning_startup_duration_seconds": "1 30",
		} {
			if times[name] != want {
				t.Errorf("%s: %s, want %s", name, times[name], want)
			}
		}
	})
}

// What happened while another one led is not measured.
func TestPodsAreForgottenWithTheLead(t *testing.T) {
	measured(t, func(r *hosttest.Rig, s *provisioner.Service, registry *prometheus.Registry) {
		r.See(pending("web"))
		r.Settle(s, time.Second)
		time.Sleep(time.Minute) // it is not stepped
		if got := served(t, registry, "karpenter_pods_unbound"); len(got) != 0 {
			t.Errorf("served by a standby: %v", got)
		}
		r.See(plannertest.Pod("web", bound))
		r.Settle(s, time.Second)
		if got := served(t, registry, "karpenter_pods_bound_"); got["duration_seconds"] != "0 0" {
			t.Errorf("%v, though it is not known when it was bound", got)
		}
	})
}

// Pods that wait count by the zone that they must be in.
func TestPodsThatWaitCountByZone(t *testing.T) {
	measured(t, func(r *hosttest.Rig, s *provisioner.Service, registry *prometheus.Registry) {
		zone := func(z string) func(*corev1.Pod) { return plannertest.Selector(corev1.LabelTopologyZone, z) }
		r.See(pending("any"), pending("a1", zone("us-west-2a")), pending("a2", zone("us-west-2a")), pending("lost", zone("eu-west-1a")), plannertest.Pod("new"))
		_, _ = r.Step(s)
		want := map[string]string{"provisioner flexible": "1", "provisioner none": "1", "provisioner us-west-2a": "2"}
		got := map[string]string{}
		for key, value := range served(t, registry, "karpenter_scheduler_pending_pods_by_effective_zone_count") {
			got[strings.TrimSpace(key)] = value
		}
		if !maps.Equal(got, want) {
			t.Errorf("%v, want %v", got, want)
		}
		if got := served(t, registry, "karpenter_scheduler_unfinished_work_seconds"); len(got) != 0 {
			t.Errorf("no round is being planned, and %v", got)
		}
	})
}
