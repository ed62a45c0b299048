package lifecycle

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	karpv1 "millwright/api/karpenter/v1"
	"millwright/planner/condition"
	"millwright/services/internal/ec2"
)

// consoles answer what became of instances, and count how often they were asked.
type consoles struct {
	report ec2.BootReport
	err    error
	asked  int
}

func (c *consoles) BootReport(context.Context, string) (ec2.BootReport, error) {
	c.asked++
	return c.report, c.err
}

// TestAClaimWhoseNodeDoesNotComeSaysWhy in its condition while it waits, and in the record that ends it; EC2
// is asked every four minutes.
func TestAClaimWhoseNodeDoesNotComeSaysWhy(t *testing.T) {
	c := &consoles{err: errors.New("throttled")}
	r := newRig(t)
	r.with(func(d *Deps) { d.Boots = c })
	r.noKubelet = true
	name := r.plan()
	message := func() string {
		if x := condition.Get(r.kube.claims[name].Status.Conditions, karpv1.ConditionTypeRegistered); x != nil {
			return x.Message
		}
		return ""
	}
	r.wait(3 * time.Minute)
	if c.asked != 0 || message() != "Node not registered with cluster" {
		t.Fatalf("asked %d times, %q", c.asked, message())
	}
	r.wait(2 * time.Minute)
	if c.asked != 1 || message() != "Node not registered with cluster" {
		t.Fatalf("without an answer: asked %d times, %q", c.asked, message())
	}
	c.err, c.report = nil, ec2.BootReport{State: "running", Console: "kubelet: Unauthorized"}
	r.wait(4 * time.Minute)
	if c.asked != 2 || !strings.HasSuffix(message(), "runs, and its console says: kubelet: Unauthorized") {
		t.Fatalf("asked %d times, %q", c.asked, message())
	}
	r.wait(time.Minute)
	doomed := ""
	r.run("claim doomed", func() bool {
		r.now = r.now.Add(10 * time.Second)
		if l := r.led.Claim(name); l != nil && l.Doomed != nil {
			doomed = l.Doomed.Message
			return l.Doomed.Reason == "registration_timeout"
		}
		return false
	})
	if !strings.Contains(doomed, "its console says: kubelet: Unauthorized") {
		t.Errorf("doomed: %q", doomed)
	}
}
