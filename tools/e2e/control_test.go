package e2e

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"millwright/tools/stack"
)

// order runs an operator's command and checks that its output contains the text.
func (e *env) order(text string, args ...string) {
	e.Helper()
	if out, code := e.millctl(args...); code != 0 || !strings.Contains(out, text) {
		e.Fatalf("millctl %s: exit %d, %q; want %q", strings.Join(args, " "), code, out, text)
	}
}

// metric returns the value of one series of a process, given by name and labels.
func (e *env) metric(process, name string) float64 {
	page, err := e.stack.Metrics(e.Context(), process)
	if err != nil {
		return -1
	}
	m := regexp.MustCompile(`(?m)^` + regexp.QuoteMeta(name) + ` (\S+)$`).FindStringSubmatch(page)
	if m == nil {
		return -1
	}
	v, _ := strconv.ParseFloat(m[1], 64)
	return v
}

// hasMetric waits until a metric has one of the wanted values.
func (e *env) hasMetric(process, name string, wanted func(float64) bool) {
	e.Helper()
	e.eventually(process+": "+name, func() string {
		if v := e.metric(process, name); !wanted(v) {
			return fmt.Sprintf("it is %v", v)
		}
		return ""
	})
}

func is(want float64) func(float64) bool { return func(v float64) bool { return v == want } }

// lasts checks that something stays true for a while, long enough for what must not happen to have happened.
func (e *env) lasts(d time.Duration, what string, so func() string) {
	e.Helper()
	for end := time.Now().Add(d); time.Now().Before(end); time.Sleep(200 * time.Millisecond) {
		if not := so(); not != "" {
			e.Fatalf("%s: %s", what, not)
		}
	}
}

func TestStopAndResume(t *testing.T) {
	e := start(t, nil)
	e.apply(defaultClass)
	e.apply(defaultPool)
	e.deploy("web", 1, "3", "1Gi")
	e.running("web", 1)

	e.order("stopped: all", "stop", "all", "--reason", "fire drill", "--by", "ann")
	e.hasMetric("millwright", `millwright_control_stopped{level="all"}`, is(1))
	e.hasEvent("Lease", "karpenter-leader-election", "Stopped (all) by ann: fire drill")
	e.deploy("late", 2, "3", "1Gi")
	e.scale("web", 0)
	e.lasts(15*time.Second, "all is stopped", func() string {
		if n, live := len(e.nodeClaims()), len(e.liveInstances()); n != 1 || live != 1 {
			return fmt.Sprintf("%d NodeClaims, %d instances", n, live)
		}
		return ""
	})

	e.order("stopped: voluntary", "stop", "voluntary", "--reason", "release", "--by", "ann")
	e.running("late", 2)
	e.scale("late", 0)
	had := len(e.liveInstances())
	e.lasts(15*time.Second, "empty nodes stay", func() string {
		if live := len(e.liveInstances()); live != had {
			return fmt.Sprintf("%d of %d instances are left", live, had)
		}
		return ""
	})

	e.order("resumed", "resume", "--by", "ann")
	e.clean()
	if out, _ := e.millctl("log", "--kind", "ControlChanged"); strings.Count(out, "by ann") != 3 {
		t.Errorf("the log says\n%s", out)
	}
	e.sound()
}

// apart puts each pod of an app on its own node.
func apart(app string) func(*corev1.PodTemplateSpec) {
	return func(p *corev1.PodTemplateSpec) {
		p.Spec.Affinity = &corev1.Affinity{PodAntiAffinity: &corev1.PodAntiAffinity{
			RequiredDuringSchedulingIgnoredDuringExecution: []corev1.PodAffinityTerm{{
				LabelSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": app}}, TopologyKey: corev1.LabelHostname,
			}},
		}}
	}
}

// withCondition counts the NodeClaims that have a condition.
func (e *env) withCondition(kind string) (count int) {
	for _, c := range e.nodeClaims() {
		if status, _, _ := condition(&c, kind); status == "True" {
			count++
		}
	}
	return count
}

const (
	// outageFor is how long the log or the bus cannot be reached.
	outageFor = time.Minute
	// bootsDuring is how long nodes take to boot during an outage: when they join, the outage has begun and
	// its rules are in force.
	bootsDuring = 20 * time.Second
	booting     = 5
)

func TestNodesJoinWhileTheLogIsUnreachable(t *testing.T) {
	nodesJoinWithout(t, "etcd", "millwright_log_unreachable_since_timestamp_seconds", "LogUnreachable")
}

func TestNodesJoinWhileTheBusIsUnreachable(t *testing.T) {
	nodesJoinWithout(t, "nats", "millwright_bus_unreachable_since_timestamp_seconds", "BusUnreachable")
}

// nodesJoinWithout makes a server hang while nodes boot; a metric and a KubeEvent report the outage.
func nodesJoinWithout(t *testing.T, victim, metric, event string) {
	t.Helper()
	e := start(t, func(o *stack.Options) {
		o.FiveProcesses = true
		o.EC2SimArgs = []string{"--boot-delay", bootsDuring.String(), "--pending-delay", "300ms", "--shutting-down-delay", "500ms"}
	})
	e.apply(defaultClass)
	e.apply(defaultPool)
	e.deploy("web", booting, "1", "1Gi", apart("web"))
	e.eventually("all launched", func() string {
		if n := e.withCondition("Launched"); n != booting {
			return fmt.Sprintf("%d are", n)
		}
		return ""
	})
	if n := e.withCondition("Registered"); n > 0 {
		t.Fatalf("%d nodes have joined before the outage", n)
	}
	began := time.Now()
	if err := e.stack.Process(victim).Signal(syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	e.eventually("all initialized during the outage", func() string {
		if n := e.withCondition("Initialized"); n != booting {
			return fmt.Sprintf("%d are, %d registered", n, e.withCondition("Registered"))
		}
		return ""
	})
	e.hasMetric("lifecycle", metric, func(v float64) bool { return v > float64(began.Add(-time.Minute).Unix()) })
	e.hasEvent("Lease", "karpenter-leader-election", event)
	e.deploy("late", 1, "1", "60Gi")
	e.lasts(time.Until(began.Add(outageFor)), "nothing is made during the outage", func() string {
		if n, live := len(e.nodeClaims()), len(e.liveInstances()); n != booting || live != booting {
			return fmt.Sprintf("%d NodeClaims, %d instances", n, live)
		}
		return ""
	})
	if err := e.stack.Process(victim).Signal(syscall.SIGCONT); err != nil {
		t.Fatal(err)
	}
	e.running("web", booting)
	e.running("late", 1)
	e.hasMetric("lifecycle", metric, is(0))
	e.matched()
	e.scale("web", 0)
	e.scale("late", 0)
	e.clean()
	e.sound()
}
