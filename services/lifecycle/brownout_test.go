package lifecycle

import (
	"context"
	"slices"
	"testing"
	"time"

	"millwright/planner/condition"

	karpv1 "millwright/api/karpenter/v1"
	awsv1 "millwright/api/karpenteraws/v1"
	"millwright/planner/ledger"
	"millwright/services/lifecycle/nodeclass"
)

// pace is how long after each other more NodeClaims than any lane has room for were brought further.
type pace struct {
	launched, registered, told, ended, scanned time.Duration
}

// slow is the pace of what is not done in time.
const slow = 45 * time.Second

// hangingClasses is a NodeClass reconciler that asks AWS.
type hangingClasses struct{ r *rig }

func (c hangingClasses) Reconcile(context.Context, *awsv1.EC2NodeClass, []*karpv1.NodeClaim) (nodeclass.Change, time.Duration, error) {
	c.r.ec2.answers("Reconcile")
	return nodeclass.Change{}, time.Minute, nil
}

// paceWhile measures what goes on while a call hangs: claims of every stage, more than any lane has room for.
func paceWhile(t *testing.T, hang string) pace {
	const each = 70
	r := newRig(t)
	r.with(func(d *Deps) { d.Classes = hangingClasses{r} })
	plan := func() (names []string) {
		for range each {
			names = append(names, r.plan())
		}
		return names
	}
	old := plan()
	r.run("old ones ready", func() bool { return all(old, func(n string) bool { return r.ready(n)() }) })
	r.wait(5 * time.Second)
	r.noKubelet = true
	joining := plan()
	r.run("joining ones launched", func() bool {
		return all(joining, func(n string) bool { return r.led.Claim(n) != nil && r.led.Claim(n).Instance != nil })
	})
	scanned := r.svc.found.Scanned()
	r.ec2.hang, r.noKubelet = hang, false
	for _, n := range old {
		r.kube.deleteClaim(n)
	}
	fresh := plan()
	p := pace{slow, slow, slow, slow, slow}
	for began := r.now; r.now.Sub(began) < slow; r.now = r.now.Add(time.Second) {
		r.turn()
		note := func(at *time.Duration, done bool) {
			if done && *at == slow {
				*at = r.now.Sub(began)
			}
		}
		note(&p.launched, all(fresh, func(n string) bool { return r.led.Claim(n) != nil && r.led.Claim(n).Instance != nil }))
		note(&p.registered, all(joining, func(n string) bool {
			return r.led.Claim(n) != nil && r.led.Claim(n).State == ledger.ClaimInitializedState
		}))
		note(&p.told, all(joining, func(n string) bool {
			return r.kube.claims[n] != nil && condition.IsTrue(r.kube.claims[n].Status.Conditions, karpv1.ConditionTypeInitialized)
		}))
		note(&p.ended, all(old, func(n string) bool { return r.led.Claim(n) == nil }))
		note(&p.scanned, r.svc.found.Scanned().After(scanned))
	}
	return p
}

func all(names []string, ok func(string) bool) bool {
	return !slices.ContainsFunc(names, func(n string) bool { return !ok(n) })
}

// A brownout of one call of AWS leaves everything at its pace that does not need the call.
func TestABrownoutOfOneCallStopsNothingElse(t *testing.T) {
	normal := paceWhile(t, "")
	if normal.launched == slow || normal.registered == slow || normal.told == slow || normal.ended == slow || normal.scanned == slow {
		t.Fatalf("normal pace: %+v", normal)
	}
	for hang, needs := range map[string]func(p *pace){
		"CreateFleet": func(p *pace) { p.launched = slow },
		"Build":       func(p *pace) { p.launched = slow },
		"CreateTags":  func(*pace) {},
		"Reconcile":   func(*pace) {},
		// The end of an instance is seen by DescribeInstances, or by a scan that needs it too.
		"DescribeInstances":       func(p *pace) { p.ended, p.scanned = slow, slow },
		"DescribeInstancesByTags": func(p *pace) { p.scanned = slow },
		"TerminateInstances":      func(p *pace) { p.ended = slow },
	} {
		t.Run(hang, func(t *testing.T) {
			want := normal
			needs(&want)
			got := paceWhile(t, hang)
			late := func(what string, got, want time.Duration) {
				if got > want+2*time.Second {
					t.Errorf("%s: %s instead of %s", what, got, want)
				}
			}
			late("launched", got.launched, want.launched)
			late("registered", got.registered, want.registered)
			late("status told", got.told, want.told)
			late("ended", got.ended, want.ended)
			late("scanned", got.scanned, want.scanned)
		})
	}
}
