package e2e

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"millwright/tools/stack"
)

// older is a build that does not know the kind of record named below.
const (
	older       = "millwright-older"
	newerRecord = "InstanceTerminated"
)

// TestARollingRestartWithAnOlderService replaces one service after another while pods come and go. The
// disruptor stays at an older version until the end: until then no service writes a record that it does not
// know, so it never has to stand down.
func TestARollingRestartWithAnOlderService(t *testing.T) {
	e := start(t, func(o *stack.Options) {
		o.FiveProcesses = true
		o.Binaries = map[string]string{"disruptor": older}
	})
	e.apply(defaultClass)
	e.apply(defaultPool)
	e.deploy("churn", 2, "3", "1Gi")
	e.running("churn", 2)
	stop := make(chan struct{})
	stopped := e.churn(stop)
	for _, service := range []string{"watcher", "provisioner", "terminator", "lifecycle"} {
		e.replace(service, "millwright")
	}
	close(stop)
	<-stopped
	e.scale("churn", 6) // more than one node holds, whatever it was when it stopped
	e.running("churn", 6)

	e.deploy("last", 1, "3", "1Gi")
	e.running("last", 1)
	e.scale("churn", 0)
	e.eventually("an instance is terminated", func() string {
		if live, claims := len(e.liveInstances()), len(e.nodeClaims()); live >= claims {
			return "no NodeClaim is without one"
		}
		return ""
	})
	e.lasts(10*time.Second, newerRecord+" is held back while the disruptor does not know it", func() string {
		out, code := e.millctl("log", "-o", "json", "--kind", newerRecord)
		if code != 0 || strings.Contains(out, newerRecord) {
			return fmt.Sprintf("exit %d\n%s", code, out)
		}
		return ""
	})
	if n := e.metric("disruptor", "millwright_disruptor_leader"); n != 1 {
		t.Errorf("the older disruptor does not lead any more: %v", n)
	}

	e.replace("disruptor", "millwright")
	e.scale("last", 0)
	e.clean()
	if out, _ := e.millctl("log", "-o", "json", "--kind", newerRecord); !strings.Contains(out, newerRecord) {
		t.Errorf("%s is not written although every service knows it", newerRecord)
	}
	e.sound()
}

// replace stops a service and starts another build in its place.
func (e *env) replace(service, binary string) {
	e.Helper()
	e.Logf("replace %s", service)
	p := e.stack.Process(service)
	if err := p.Stop(); err != nil {
		e.Fatal(err)
	}
	p.Use(binary)
	if err := p.Restart(); err != nil {
		e.Fatal(err)
	}
	if err := e.stack.AwaitReady(e.Context(), p); err != nil {
		e.Fatal(err)
	}
}
