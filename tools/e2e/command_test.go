package e2e

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"millwright/planner/ledger"
	"millwright/tools/ec2sim/simclient"
	"millwright/tools/stack"
)

// step is a point in the life of a command: the call that is made there, and whether the call is still
// carried out.
type step struct {
	name, victim string
	carriedOut   bool
	is           func(c call) bool
}

func taints(c call) bool {
	return c.method == http.MethodPatch && strings.HasPrefix(c.path, "/api/v1/nodes/") && strings.Contains(c.body, "karpenter.sh/disrupted")
}

func onNodeClaims(method string) func(call) bool {
	return func(c call) bool {
		return c.method == method && strings.HasPrefix(c.path, "/apis/karpenter.sh/v1/nodeclaims")
	}
}

func asksEC2(action string) func(call) bool {
	return func(c call) bool { return strings.Contains(c.body, "Action="+action+"&") }
}

func evicts(c call) bool { return strings.HasSuffix(c.path, "/eviction") }

var (
	firstSteps = []step{
		{"the command is recorded", "disruptor", false, taints},
		{"the taint is on", "disruptor", true, taints},
		{"the replacement's NodeClaim is made", "lifecycle", true, onNodeClaims(http.MethodPost)},
		{"the replacement is launched", "lifecycle", true, asksEC2("CreateFleet")},
	}
	lastSteps = []step{
		{"the replacement is initialized", "disruptor", false, onNodeClaims(http.MethodDelete)},
		{"the NodeClaim is being deleted", "disruptor", true, onNodeClaims(http.MethodDelete)},
		{"a pod is evicted", "terminator", true, evicts},
		{"the instance is terminated", "lifecycle", true, asksEC2("TerminateInstances")},
	}
)

// The leader is killed at each step of a command, exactly before or after the call that makes the step. The
// next leader takes the command over: it ends exactly once, and nothing is launched twice or left behind.
func TestLeadersAreKilledAtEachStepUntilTheReplacementIsLaunched(t *testing.T) {
	leadersAreKilled(t, firstSteps)
}

func TestLeadersAreKilledAtEachStepUntilTheInstanceIsGone(t *testing.T) {
	leadersAreKilled(t, lastSteps)
}

func leadersAreKilled(t *testing.T, steps []step) {
	t.Helper()
	var e *env
	var armed atomic.Pointer[step]
	killed := make(chan string, 1)
	w := &witnesses{cut: func(c call, carriedOut bool) bool {
		s := armed.Load()
		if s == nil || carriedOut != s.carriedOut || !s.is(c) || !armed.CompareAndSwap(s, nil) {
			return false
		}
		if err := e.stack.Process(s.victim).Kill(); err != nil {
			t.Error(err)
		}
		killed <- s.name
		return true
	}}
	e = start(t, func(o *stack.Options) { o.FiveProcesses, o.Through = true, w.through(t) })
	e.apply(defaultClass)
	pool := namedPool("default", "m5.large")
	e.apply(pool)
	e.deploy("web", 1, "1", "1Gi")
	e.running("web", 1)
	for i, s := range steps {
		old := e.poolNodes("default")[0].Name
		armed.Store(&s)
		e.apply(inTemplate(pool, fmt.Sprintf("{labels: {step: s%d}}", i)))
		e.eventually(s.name, func() string {
			select {
			case <-killed:
				return ""
			default:
				return "not yet"
			}
		})
		e.Logf("%s killed: %s", s.victim, s.name)
		if err := e.stack.Process(s.victim).Restart(); err != nil {
			t.Fatal(err)
		}
		e.replaced("default", old)
		e.endedOnce(i + 1)
	}
	e.running("web", 1)
	e.matched()
	if launched := e.launches(); len(launched) != len(steps)+1 {
		t.Errorf("%d launches for %d nodes", len(launched), len(steps)+1)
	}
	e.scale("web", 0)
	e.clean()
	e.sound()
}

// replaced waits until the only node of a NodePool is a different one that is ready and unmarked.
func (e *env) replaced(pool, old string) {
	e.Helper()
	e.eventually(old+" is replaced", func() string {
		nodes := e.poolNodes(pool)
		if len(nodes) != 1 || nodes[0].Name == old || len(e.claimsOf(pool)) != 1 {
			return fmt.Sprintf("%d nodes, %d NodeClaims", len(nodes), len(e.claimsOf(pool)))
		}
		if n := nodes[0]; n.Labels["karpenter.sh/initialized"] != "true" || len(n.Spec.Taints) > 0 {
			return fmt.Sprintf("%s is not initialized, or has taints %v", n.Name, n.Spec.Taints)
		}
		return ""
	})
}

// endedOnce waits until each command has ended, exactly once, and checks that so many have succeeded and
// none was given up.
func (e *env) endedOnce(succeeded int) {
	e.Helper()
	ends := []string{"CommandSucceeded", "CommandRolledBack", "CommandAbandoned"}
	e.eventually("each command ends", func() string {
		started := records[ledger.CommandStarted](e, "CommandStarted", "CommandMovesStarted")
		if ended := records[ledger.CommandRolledBack](e, ends...); len(ended) < len(started) {
			return fmt.Sprintf("%d of %d have", len(ended), len(started))
		}
		return ""
	})
	seen, n := map[string]bool{}, 0
	for _, r := range records[ledger.CommandRolledBack](e, ends...) {
		switch {
		case seen[r.Payload.ID]:
			e.Errorf("command %s ends with %s, after it had ended", r.Payload.ID, r.Kind)
		case r.Kind == "CommandSucceeded":
			n++
		default:
			e.Errorf("command %s ends with %s: %s", r.Payload.ID, r.Kind, r.Payload.Reason)
		}
		seen[r.Payload.ID] = true
	}
	if n != succeeded {
		e.Errorf("%d commands succeeded, want %d", n, succeeded)
	}
}

// boots sets how long machines take to boot.
func (e *env) boots(d time.Duration) {
	e.Helper()
	settings, err := e.ec2.Settings(e.Context())
	if err != nil {
		e.Fatal(err)
	}
	settings.Boot = simclient.Duration(d)
	if err := e.ec2.SetSettings(e.Context(), settings); err != nil {
		e.Fatal(err)
	}
}

// A stop while a command waits for its replacement rolls the command back and removes the replacement: the
// node stays as it was, with its pods.
func TestAStopInTheMiddleOfACommand(t *testing.T) {
	e := start(t, nil)
	e.apply(defaultClass)
	pool := namedPool("shaky", "m5.large")
	e.apply(pool)
	e.deploy("web", 1, "1", "1Gi")
	e.running("web", 1)
	old, pods := e.poolNodes("shaky")[0].Name, e.placesOf("web")
	e.boots(time.Hour)
	e.apply(inTemplate(pool, "{labels: {team: blue}}"))
	e.replacementOf(old, "Launched")
	e.order("stopped: voluntary", "stop", "voluntary", "--reason", "release", "--by", "ann")
	e.takenBack("shaky", old)
	if now := e.placesOf("web"); fmt.Sprint(now) != fmt.Sprint(pods) {
		t.Errorf("the pods run on %v, they ran on %v", now, pods)
	}
	back := records[ledger.CommandRolledBack](e, "CommandAbandoned")
	if len(back) != 1 || back[0].Payload.Reason != "stopped (voluntary) by ann: release" || len(back[0].Payload.Unused) != 1 {
		t.Fatalf("given up as %+v", back)
	}
	started := len(e.moves("shaky"))
	e.lasts(3*time.Second, "nothing is begun while that is stopped", func() string {
		if n := len(e.moves("shaky")); n != started {
			return fmt.Sprintf("%d commands", n)
		}
		return ""
	})
	e.order("resumed", "resume", "--by", "ann")
	e.eventually("the NodePool is left alone for a while, since a replacement was made in vain", func() string {
		story, _ := e.millctl("why", "node", old)
		if !strings.Contains(story, "trying again at") && len(e.moves("shaky")) == 1 {
			return story
		}
		return ""
	})
	e.sound()
}

// A PodDisruptionBudget closes after the first of a node's two pods was evicted: the second pod stays and its
// node is kept, even after the budget opens again, as long as an operator's stop is in force. After the stop
// the node goes.
func TestABudgetClosesInTheMiddleOfACommand(t *testing.T) {
	var e *env
	var armed atomic.Bool
	closed := make(chan struct{})
	w := &witnesses{cut: func(c call, carriedOut bool) bool {
		if carriedOut && evicts(c) && armed.CompareAndSwap(true, false) {
			e.allow("web", 0)
			close(closed)
		}
		return false
	}}
	e = start(t, func(o *stack.Options) { o.Through = w.through(t) })
	e.apply(defaultClass)
	pool := namedPool("default", "m5.xlarge")
	e.apply(pool)
	e.deploy("web", 2, "1500m", "1Gi")
	e.running("web", 2)
	e.protect("web")
	e.allow("web", 1)
	e.eventually("the budget allows one", func() string {
		b, err := e.kube.PolicyV1().PodDisruptionBudgets("default").Get(e.Context(), "web", metav1.GetOptions{})
		if err != nil || b.Status.DisruptionsAllowed != 1 {
			return fmt.Sprintf("%v, %v", b, err)
		}
		return ""
	})
	old := e.poolNodes("default")[0].Name
	armed.Store(true)
	e.apply(inTemplate(pool, "{labels: {team: blue}}"))
	e.eventually("a pod is evicted", func() string {
		select {
		case <-closed:
			return ""
		default:
			return "not yet"
		}
	})
	e.running("web", 2)
	held := func() string {
		here := 0
		for _, node := range e.placesOf("web") {
			if node == old {
				here++
			}
		}
		if here != 1 {
			return fmt.Sprintf("%d pods are on %s", here, old)
		}
		n, err := e.kube.CoreV1().Nodes().Get(e.Context(), old, metav1.GetOptions{})
		if err != nil || !slices.ContainsFunc(n.Spec.Taints, func(t corev1.Taint) bool { return t.Key == "karpenter.sh/disrupted" }) {
			return fmt.Sprintf("%s is gone, or has lost its taint: %v", old, err)
		}
		return ""
	}
	e.hasEvent("Node", old, "FailedDraining")
	e.lasts(3*time.Second, "the second pod stays", held)
	e.order("stopped: voluntary", "stop", "voluntary", "--reason", "release", "--by", "ann")
	e.hasMetric("millwright", `millwright_control_stopped{level="voluntary"}`, is(1))
	e.allow("web", 1)
	e.hasEvent("Node", old, "DrainPaused")
	e.lasts(3*time.Second, "the second pod stays during the stop", held)
	e.order("resumed", "resume", "--by", "ann")
	e.replaced("default", old)
	e.running("web", 2)
	e.endedOnce(1)
	e.sound()
}

// allow sets how many pods a PodDisruptionBudget can do without.
func (e *env) allow(name string, unavailable int32) {
	e.retry("change the budget "+name, func() error {
		_, err := e.kube.PolicyV1().PodDisruptionBudgets("default").Patch(e.Context(), name, types.MergePatchType,
			fmt.Appendf(nil, `{"spec":{"maxUnavailable":%d}}`, unavailable), metav1.PatchOptions{})
		return err
	})
}

// All five services are of an older version when a command starts. They are replaced one by one while it
// waits for its replacement; the newer ones take it over, and it ends exactly once.
func TestAnUpgradeInTheMiddleOfACommand(t *testing.T) {
	e := start(t, func(o *stack.Options) {
		o.FiveProcesses, o.Binaries = true, map[string]string{}
		for _, service := range stack.Services {
			o.Binaries[service] = older
		}
	})
	e.apply(defaultClass)
	pool := namedPool("shaky", "m5.large")
	e.apply(pool)
	e.deploy("web", 1, "1", "1Gi")
	e.running("web", 1)
	old := e.poolNodes("shaky")[0].Name
	e.boots(time.Hour)
	e.apply(inTemplate(pool, "{labels: {team: blue}}"))
	e.replacementOf(old, "Launched")
	for _, service := range stack.Services {
		e.replace(service, "millwright")
	}
	if n := len(records[ledger.CommandSucceeded](e, "CommandSucceeded", "CommandRolledBack", "CommandAbandoned")); n > 0 {
		t.Fatalf("%d commands ended although the replacement has not joined", n)
	}
	e.boots(500 * time.Millisecond)
	e.replaced("shaky", old)
	e.endedOnce(1)
	e.matched()
	e.scale("web", 0)
	e.clean()
	e.sound()
}
