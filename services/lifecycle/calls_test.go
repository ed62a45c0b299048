package lifecycle

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"

	karpv1 "millwright/api/karpenter/v1"
	awsv1 "millwright/api/karpenteraws/v1"
	"millwright/events"
	"millwright/planner/ledger"
	"millwright/services/internal/ec2"
)

// Claims of one request are a batch (reference: operations §2.5).
func TestAFleetIsMeasuredAsABatch(t *testing.T) {
	r, names := newFleetRig(t, 5)
	registry := prometheus.NewRegistry()
	r.with(func(d *Deps) { d.Registerer = registry })
	r.run("launched", r.all(names, func(name string) func() bool {
		return func() bool { c := r.led.Claim(name); return c != nil && c.Instance != nil }
	}))
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	found := 0
	for _, f := range families {
		for _, m := range f.GetMetric() {
			switch h := m.GetHistogram(); f.GetName() {
			case "karpenter_cloudprovider_batcher_batch_size":
				if found++; h.GetSampleCount() != 1 || h.GetSampleSum() != 5 || m.GetLabel()[0].GetValue() != "create_fleet" {
					t.Errorf("batches: %v", m)
				}
			case "karpenter_cloudprovider_batcher_batch_time_seconds":
				if found++; h.GetSampleCount() != 1 || h.GetSampleSum() > 1 {
					t.Errorf("waits: %v", m)
				}
			}
		}
	}
	if found != 2 {
		t.Errorf("%d metrics of batches", found)
	}
}

// Instances that cannot be terminated count by their zone, those of claims as well as those of nobody.
func TestFailedTerminationsAreCounted(t *testing.T) {
	for name, c := range map[string]struct {
		begin func(*rig)
		want  string
	}{
		"of a claim": {func(r *rig) {
			o := r.kube.claims[r.readyClaims(1)[0]].DeepCopy()
			o.Labels[awsv1.LabelTopologyZoneID] = "euw1-az1"
			r.kube.put(&r.kube.claims, o)
			r.kube.deleteNode("node-i-0001")
		}, `{zone="eu-1a",zone_id="euw1-az1"} 3`},
		"of nobody": {func(r *rig) { r.stray(1, time.Minute) }, `{zone="eu-1a",zone_id=""} 3`},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t)
			registry := prometheus.NewRegistry()
			r.with(func(d *Deps) { d.Registerer = registry; d.EC2 = &refusingEC2{fakeEC2: r.ec2, left: 3} })
			c.begin(r)
			r.run("terminated", func() bool { return r.ec2.running() == 0 })
			if n := r.count(ledger.KindOrphanFound); n > 1 {
				t.Errorf("one orphan, %d records of it", n)
			}
			const metric = "karpenter_cloudprovider_instance_termination_failures_total"
			want := "# HELP " + metric + " Calls to terminate an instance that failed, by its zone; zone_id is empty if it is not known.\n# TYPE " + metric + " counter\n" + metric + c.want + "\n"
			if err := testutil.GatherAndCompare(registry, strings.NewReader(want), metric); err != nil {
				t.Error(err)
			}
		})
	}
}

// refusingEC2 terminates nothing, a number of times.
type refusingEC2 struct {
	*fakeEC2
	left int
}

func (e *refusingEC2) TerminateInstances(ctx context.Context, ids []string) error {
	if e.left > 0 {
		e.left--
		return apiError("InternalError")
	}
	return e.fakeEC2.TerminateInstances(ctx, ids)
}

// Offerings that failed count by their zone and its id (reference: operations §2.1).
func TestFailedLaunchesAreCounted(t *testing.T) {
	r := newRig(t)
	registry := prometheus.NewRegistry()
	r.with(func(d *Deps) { d.Registerer = registry })
	nc := r.kube.classes["default"].DeepCopy()
	nc.Status.Subnets = []awsv1.Subnet{{ID: "subnet-a", Zone: "eu-1a", ZoneID: "euw1-az1"}}
	r.kube.put(&r.kube.classes, nc)
	r.ec2.exhausted["c5.large"], r.ec2.exhausted["m5.large"] = true, true
	r.run("claim closed", r.closed(r.plan()))
	const metric = "karpenter_cloudprovider_instance_launch_failures_total"
	want := "# HELP " + metric + " Offerings that failed to launch; zone_id is empty if it is not known.\n# TYPE " + metric + " counter\n" +
		metric + `{capacity_type="on-demand",reason="InsufficientInstanceCapacity",zone="eu-1a",zone_id="euw1-az1"} 2` + "\n"
	if err := testutil.GatherAndCompare(registry, strings.NewReader(want), metric); err != nil {
		t.Error(err)
	}
}

// Launches that fail for another reason than want of capacity count too, by Karpenter's names of the reasons
// (reference: operations §2.5).
func TestLaunchesThatFailForOtherReasonsAreCounted(t *testing.T) {
	for name, c := range map[string]struct {
		begin func(r *rig)
		want  string
	}{
		"the whole call": {func(r *rig) { r.ec2.refuse = []error{apiError("UnauthorizedOperation")} }, `{capacity_type="",reason="Unauthorized",zone="",zone_id=""} 1`},
		"an offering": {func(r *rig) {
			r.ec2.failures = [][]ec2.FleetError{{{Code: "InvalidAMIID.NotFound", InstanceType: "m5.large", Zone: "eu-1a", CapacityType: "on-demand"}}}
		}, `{capacity_type="on-demand",reason="AMINotFound",zone="eu-1a",zone_id=""} 1`},
		"a quota": {func(r *rig) {
			r.ec2.failures = [][]ec2.FleetError{{{Code: "VcpuLimitExceeded", InstanceType: "m5.large", Zone: "eu-1a", CapacityType: "on-demand"}}}
		}, `{capacity_type="on-demand",reason="VCPULimitExceeded",zone="eu-1a",zone_id=""} 1`},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t)
			registry := prometheus.NewRegistry()
			r.with(func(d *Deps) { d.Registerer = registry })
			c.begin(r)
			claim := r.plan()
			const metric = "karpenter_cloudprovider_instance_launch_failures_total"
			r.run("a launch has failed", func() bool {
				n, err := testutil.GatherAndCount(registry, metric)
				return err == nil && n > 0 || r.led.Claim(claim) == nil
			})
			want := "# HELP " + metric + " Offerings that failed to launch; zone_id is empty if it is not known.\n# TYPE " + metric + " counter\n" + metric + c.want + "\n"
			if err := testutil.GatherAndCompare(registry, strings.NewReader(want), metric); err != nil {
				t.Error(err)
			}
		})
	}
}

// A node that has to go counts with the pods that need a new place then (reference: operations §2.1).
func TestPodsWhoseDisruptionBeginsAreCounted(t *testing.T) {
	r := newRig(t)
	registry := prometheus.NewRegistry()
	r.with(func(d *Deps) { d.Registerer = registry })
	name, instance := r.initialized()
	for _, pod := range []string{"x", "y"} {
		r.pod(pod, r.led.Claim(name).Node)
	}
	r.message(events.ScheduledChange, instance, time.Time{})
	r.run("claim closed", r.closed(name))
	for metric, want := range map[string]string{"karpenter_nodeclaims_disrupted_total": "1", "karpenter_pods_disruption_initiated_total": "2"} {
		help := map[bool]string{true: "NodeClaims disrupted, by reason.", false: "Pods, DaemonSets aside, of NodeClaims when their disruption begins, by reason."}[want == "1"]
		text := "# HELP " + metric + " " + help + "\n# TYPE " + metric + " counter\n" + metric + `{capacity_type="on-demand",nodepool="default",reason="` + events.ScheduledChange + `"} ` + want + "\n"
		if err := testutil.GatherAndCompare(registry, strings.NewReader(text), metric); err != nil {
			t.Error(err)
		}
	}
}

// A replacement counts by why others go, any other NodeClaim as provisioned (reference: operations §2.1).
func TestNodeClaimsAreCountedByWhyTheyAreCreated(t *testing.T) {
	r := newRig(t)
	registry := prometheus.NewRegistry()
	r.with(func(d *Deps) { d.Registerer = registry })
	plain := r.plan()
	planned := *r.led.Claim(plain).Planned
	rec := r.other(ledger.ServiceDisruptor, ledger.KindCommandStarted, &ledger.CommandStarted{Reason: karpv1.DisruptionReasonUnderutilized, Method: "single",
		Candidates: []ledger.Candidate{{Claim: "old", ClaimUID: "old-uid", Node: "old", NodePool: "default"}}, Replacements: []ledger.PlannedClaim{planned}})
	r.other(ledger.ServiceDisruptor, ledger.KindCommandConfirmed, &ledger.CommandConfirmed{ID: ledger.CommandID(r.log.ID(), rec.Seq)})
	replacement := ledger.ClaimName(r.log.ID(), "default", rec.Seq, 0)
	r.run("both are created", func() bool { return r.led.Claim(plain).UID != "" && r.led.Claim(replacement).UID != "" })
	const metric = "karpenter_nodeclaims_created_total"
	want := "# HELP " + metric + " NodeClaims created.\n# TYPE " + metric + " counter\n" +
		metric + `{min_values_relaxed="false",nodepool="default",reason="provisioned"} 1` + "\n" +
		metric + `{min_values_relaxed="false",nodepool="default",reason="underutilized"} 1` + "\n"
	if err := testutil.GatherAndCompare(registry, strings.NewReader(want), metric); err != nil {
		t.Error(err)
	}
}
