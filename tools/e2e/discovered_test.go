package e2e

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"millwright/tools/stack"
)

// The memory that nodes have is remembered beyond a restart: where the estimate says that a pod does not
// fit a small type, and a node of that type has shown that it does, the pod gets one (ec2 §1.2).
func TestTheMemoryOfNodesIsRememberedBeyondARestart(t *testing.T) {
	e := start(t, func(o *stack.Options) {
		o.MillwrightArgs = append(o.MillwrightArgs, "--vm-memory-overhead-percent=0.3") // nodes have 92.5 %
	})
	e.apply(defaultClass)
	e.apply(strings.Replace(defaultPool, "      requirements:\n", `      requirements:
        - {key: node.kubernetes.io/instance-type, operator: In, values: [m5.large, m5.xlarge]}
`, 1))
	e.deploy("first", 1, "1", "1Gi")
	e.running("first", 1)
	e.eventually("the memory of m5.large is recorded", func() string {
		out, _ := e.millctl("log", "--kind", "MemoryDiscovered")
		if !strings.Contains(out, "m5.large") {
			return out
		}
		return ""
	})
	p := e.stack.Process("millwright")
	if err := p.Kill(); err != nil {
		t.Fatal(err)
	}
	if err := p.Restart(); err != nil {
		t.Fatal(err)
	}
	e.deploy("second", 1, "1", "6Gi") // an m5.large has 6.7 GiB for pods, and 4.9 by the estimate
	e.running("second", 1)
	for _, n := range e.nodes() {
		if kind := n.Labels[corev1.LabelInstanceTypeStable]; kind != "m5.large" {
			t.Errorf("node %s is a %s", n.Name, kind)
		}
	}
	e.scale("first", 0)
	e.scale("second", 0)
	e.clean()
	e.sound()
}
