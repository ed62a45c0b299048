package lifecycle

import (
	"slices"
	"strings"
	"testing"

	karpv1 "millwright/api/karpenter/v1"
	"millwright/planner/ledger"
	"millwright/planner/resource"
)

// widen has the provisioner widen a claim to so many millicores, and returns the record.
func (r *rig) widen(name string, cpu int64) uint64 {
	content := *r.led.Claim(name).Planned
	content.Requests = resource.Vector{MilliCPU: cpu}
	content.Capacity = resource.Vector{MilliCPU: 2 * cpu}
	return r.other(ledger.ServiceProvisioner, ledger.KindProvisioningWidened,
		&ledger.ProvisioningPlanned{Widened: []ledger.WidenedClaim{{Claim: name, Content: content}}},
		ledger.PoolAggregate("default"), ledger.ClaimAggregate(name)).Seq
}

func TestANodeClaimIsMadeOfTheLastContent(t *testing.T) {
	r := newRig(t)
	name := r.plan()
	r.widen(name, 300)
	last := r.widen(name, 700)
	r.run("node ready", r.ready(name))
	o := r.kube.claims[name]
	if cpu := o.Spec.Resources.Requests.Cpu().MilliValue(); cpu != 700 || o.Annotations[karpv1.RecordAnnotationKey] != ledger.RecordAnnotation(r.log.ID(), last) {
		t.Errorf("made with %dm, annotations %v", cpu, o.Annotations)
	}
	if c := r.led.Claim(name); c.Planned.Requests.MilliCPU != 700 || len(c.Earlier) != 0 {
		t.Errorf("the Ledger has %+v", c)
	}
}

// TestAWideningWhileTheNodeClaimIsMadeDoesNotCount: the process dies between making the object and recording
// it, whichever way the answer went, and the claim is widened meanwhile. Object and Ledger agree, and one
// instance is launched.
func TestAWideningWhileTheNodeClaimIsMadeDoesNotCount(t *testing.T) {
	clean := newRig(t)
	name := clean.plan()
	clean.run("node ready", clean.ready(name))
	at := 1 + slices.IndexFunc(clean.trail, func(act string) bool { return strings.Contains(act, "ClaimCreated") })
	for _, f := range []fault{crashBefore, errorBefore} {
		t.Run(f.String(), func(t *testing.T) {
			r := newRig(t)
			r.at, r.fault = at, f
			name := r.plan()
			planned := r.led.Claim(name).PlannedSeq
			r.run("object made", func() bool { return r.kube.claims[name] != nil })
			if r.led.Claim(name).State != ledger.ClaimPlanned {
				t.Fatalf("recorded already: %v", r.kinds())
			}
			r.widen(name, 700)
			r.run("node ready", r.ready(name))
			o := r.kube.claims[name]
			if cpu := o.Spec.Resources.Requests.Cpu().MilliValue(); cpu != 100 || o.Annotations[karpv1.RecordAnnotationKey] != ledger.RecordAnnotation(r.log.ID(), planned) {
				t.Errorf("made with %dm, annotations %v", cpu, o.Annotations)
			}
			if c := r.led.Claim(name); c.Planned.Requests.MilliCPU != 100 || c.WidenedSeq != 0 {
				t.Errorf("the Ledger has %+v", c.Planned)
			}
			if n := len(r.ec2.instances); n != 1 {
				t.Errorf("%d instances", n)
			}
		})
	}
}

// TestAClaimWithdrawnWhileItsNodeClaimIsMade: the object that nobody planned any more goes, and nothing is
// launched.
func TestAClaimWithdrawnWhileItsNodeClaimIsMade(t *testing.T) {
	clean := newRig(t)
	name := clean.plan()
	clean.run("node ready", clean.ready(name))
	at := 1 + slices.IndexFunc(clean.trail, func(act string) bool { return strings.Contains(act, "ClaimCreated") })
	r := newRig(t)
	r.at, r.fault = at, crashBefore
	name = r.plan()
	r.run("object made", func() bool { return r.kube.claims[name] != nil })
	r.other(ledger.ServiceProvisioner, ledger.KindClaimWithdrawn, &ledger.ClaimWithdrawn{Claim: name, Reason: "no_pod_needs_it"},
		ledger.PoolAggregate("default"), ledger.ClaimAggregate(name))
	r.run("claim closed", r.closed(name))
	if n := len(r.ec2.instances); n != 0 {
		t.Errorf("%d instances were launched: %v", n, r.kinds())
	}
}
