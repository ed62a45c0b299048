package e2e

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"millwright/tools/ec2sim/simclient"
)

var policiesGVR = schema.GroupVersionResource{Group: "millwright.sh", Version: "v1alpha1", Resource: "disruptionpolicies"}

const policyManifest = `
apiVersion: millwright.sh/v1alpha1
kind: DisruptionPolicy
metadata: {name: ask}
spec:
  approval: {reasons: [Empty]}
  windows: [{action: Deny, schedule: "* * * * *", duration: 1h, timeZone: ZONE, reasons: [Underutilized]}]
`

// proposed returns the ids of proposals in a state.
func (e *env) proposals(state string) (ids []string) {
	out, code := e.millctl("commands", "--state", state, "-o", "json")
	var list []struct{ ID string }
	if err := json.Unmarshal([]byte(out), &list); code != 0 || err != nil {
		e.Fatalf("millctl commands: %d, %v: %s", code, err, out)
	}
	for _, c := range list {
		ids = append(ids, c.ID)
	}
	return ids
}

// An empty node stays until a person has approved its removal; a rejection keeps it. The log names the
// person, and the status of the policy reports what it selects and which part of it cannot be read.
func TestEmptyNodesWaitForApproval(t *testing.T) {
	e := start(t, nil)
	e.apply(strings.Replace(policyManifest, "ZONE", "Europe/Berlin", 1))
	e.apply(defaultClass)
	e.apply(defaultPool)
	e.hasCondition(policiesGVR, "ask", "Ready", "True", "")
	e.deploy("web", 1, "1", "1Gi")
	e.running("web", 1)
	node := e.nodes()[0].Name
	e.scale("web", 0)
	e.eventually("a proposal", func() string {
		if len(e.proposals("proposed")) != 1 {
			return "none is listed"
		}
		return ""
	})
	e.hasEvent("Node", node, "waits for approval")
	first := e.proposals("proposed")[0]
	if out, code := e.millctl("reject", first, "--by", "ann", "--reason", "wait a little", "--for", "3s"); code != 0 {
		t.Fatalf("reject: %s", out)
	}
	if out, code := e.millctl("approve", first, "--by", "bob", "--reason", "go"); code == 0 || !strings.Contains(out, "answered already by ann: wait a little") && !strings.Contains(out, "is not proposed") {
		t.Errorf("a second answer: %d, %s", code, out)
	}
	var second string
	e.eventually("another proposal", func() string {
		if ids := e.proposals("proposed"); len(ids) == 1 && ids[0] != first {
			second = ids[0]
			return ""
		}
		return "none is listed"
	})
	if len(e.nodes()) != 1 || len(e.nodes()[0].Spec.Taints) > 0 {
		t.Fatalf("nodes while nobody has approved: %v", e.nodes())
	}
	if out, code := e.millctl("approve", second, "--by", "bob", "--reason", "nobody needs it"); code != 0 {
		t.Fatalf("approve: %s", out)
	}
	e.eventually("no node", func() string {
		if n := len(e.nodes()); n > 0 {
			return fmt.Sprintf("%d nodes", n)
		}
		return ""
	})
	story, _ := e.millctl("why", "node", node)
	for _, text := range []string{"rejected by ann", "approved by bob: nobody needs it", "as was approved (" + second + ")"} {
		if !strings.Contains(story, text) {
			t.Errorf("the node's story does not say %q:\n%s", text, story)
		}
	}
	e.apply(strings.Replace(policyManifest, "ZONE", "Europe/Atlantis", 1))
	e.hasCondition(policiesGVR, "ask", "Ready", "False", `spec.windows[0].timeZone: time zone "Europe/Atlantis" is not in the IANA database`)
	e.sound()
}

// Drift in waves: a replacement that fails halts the roll-out and is reported; once resumed, the roll-out
// begins with one node again and doubles. The log is replayed.
func TestDriftInWaves(t *testing.T) {
	const nodes = 4
	e := start(t, nil)
	e.apply("apiVersion: millwright.sh/v1alpha1\nkind: DisruptionPolicy\nmetadata: {name: careful}\nspec: {waves: {initial: 1}}\n")
	e.apply(defaultClass)
	e.apply(defaultPool)
	e.deploy("web", nodes, "500m", "512Mi", func(p *corev1.PodTemplateSpec) {
		p.Spec.Affinity = &corev1.Affinity{PodAntiAffinity: &corev1.PodAntiAffinity{RequiredDuringSchedulingIgnoredDuringExecution: []corev1.PodAffinityTerm{
			{TopologyKey: corev1.LabelHostname, LabelSelector: &metav1.LabelSelector{MatchLabels: p.Labels}}}}}
	})
	e.running("web", nodes)
	old := map[string]bool{}
	for _, c := range e.nodeClaims() {
		old[c.GetName()] = true
	}
	if _, err := e.ec2.AddFault(e.Context(), simclient.Fault{Action: "CreateFleet", Count: 1, Delay: simclient.Duration(5 * time.Second)}); err != nil {
		t.Fatal(err)
	}
	e.apply(strings.Replace(defaultPool, "    spec:\n      requirements:", "    metadata: {labels: {team: blue}}\n    spec:\n      requirements:", 1))
	e.eventually("somebody deletes the first replacement", func() string {
		for _, c := range e.nodeClaims() {
			if !old[c.GetName()] {
				if err := e.dyn.Resource(claimsGVR).Delete(e.Context(), c.GetName(), metav1.DeleteOptions{}); err != nil {
					return err.Error()
				}
				return ""
			}
		}
		return "there is none"
	})
	e.eventually("the policy's status says that it has halted", func() string {
		o, err := e.dyn.Resource(policiesGVR).Get(e.Context(), "careful", metav1.GetOptions{})
		if err != nil {
			return err.Error()
		}
		if n, _, _ := unstructured.NestedInt64(o.Object, "status", "haltedRollouts"); n != 1 {
			return fmt.Sprintf("%v", o.Object["status"])
		}
		return ""
	})
	e.hasEvent("NodePool", "default", "millctl rollouts resume default")
	if story, _ := e.millctl("why", "node", e.nodes()[0].Name); !strings.Contains(story, "has halted, as command") {
		t.Errorf("the story of a node does not say that its roll-out has halted:\n%s", story)
	}
	if out, code := e.millctl("rollouts", "resume", "default", "--by", "ann", "--reason", "it was me"); code != 0 {
		t.Fatalf("resume: %s", out)
	}
	e.eventually("all nodes as the NodePool says now", func() string {
		for _, n := range e.poolNodes("default") {
			if n.Labels["team"] != "blue" {
				return fmt.Sprintf("node %s is of before", n.Name)
			}
		}
		return ""
	})
	e.running("web", nodes)
	log, _ := e.millctl("log")
	for text, want := range map[string]int{"in wave 1 (of 1 nodes)": 2, "in wave 2 (of 2 nodes)": 2, "in wave 3 (of 4 nodes)": 1, "the roll-out of its NodePool halts": 1, "resumed by ann: it was me": 1} {
		if n := strings.Count(log, text); n != want {
			t.Errorf("%q is in the log %d times, want %d:\n%s", text, n, want, log)
		}
	}
	e.sound()
}

// Pods had to take a node of a NodePool of lower weight, since the preferred NodePool had no room. Once it
// has room, the node returns to it: the replacement is ready before the node goes, although consolidation
// would not touch the node. `millctl why` tells why the node stayed until then, and for what it went.
func TestNodesReturnToThePreferredNodePool(t *testing.T) {
	e := start(t, nil)
	e.apply("apiVersion: millwright.sh/v1alpha1\nkind: DisruptionPolicy\nmetadata: {name: back}\nspec: {returnToPreferred: {preferences: [NodePoolWeight], availableFor: 1m}}\n")
	preferred := strings.Replace(strings.Replace(defaultPool, "{name: default}", "{name: preferred}", 1), "spec:\n", "spec:\n  weight: 10\n  limits: {cpu: LIMIT}\n", 1)
	e.apply(defaultClass)
	e.apply(strings.Replace(preferred, "LIMIT", `"0"`, 1))
	e.apply(defaultPool)
	e.deploy("web", 1, "1", "1Gi")
	e.running("web", 1)
	old := e.poolNodes("default")
	if len(old) != 1 || len(e.nodes()) != 1 {
		t.Fatalf("%d of %d nodes are a fallback, want one", len(old), len(e.nodes()))
	}
	if story, _ := e.millctl("why", "node", old[0].Name); !strings.Contains(story, "Stays a fallback") {
		t.Errorf("the story does not say that the node is a fallback:\n%s", story)
	}
	e.apply(strings.Replace(preferred, "LIMIT", `"100"`, 1))
	e.eventually("the node is of the preferred NodePool", func() string {
		if a, b := len(e.poolNodes("preferred")), len(e.poolNodes("default")); a != 1 || b != 0 {
			return fmt.Sprintf("%d preferred, %d fallback", a, b)
		}
		return ""
	})
	e.running("web", 1)
	story, _ := e.millctl("why", "node", old[0].Name)
	for _, text := range []string{"(PreferredAvailable, preferred)", "DisruptionPolicy back returns it from on-demand of NodePool default (weight 0) to on-demand of NodePool preferred (weight 10)"} {
		if !strings.Contains(story, text) {
			t.Errorf("the node's story does not say %q:\n%s", text, story)
		}
	}
	e.sound()
}

// A node that only protected pods keep is left to run empty: it is tainted, new pods go elsewhere, nobody is
// evicted, and it goes once the pods have ended. The log is replayed.
func TestANodeRunsEmptyByItself(t *testing.T) {
	e := start(t, nil)
	e.apply("apiVersion: millwright.sh/v1alpha1\nkind: DisruptionPolicy\nmetadata: {name: drain}\nspec: {drainOut: {nodes: 100%}}\n")
	e.apply(defaultClass)
	e.apply(strings.Replace(defaultPool, "consolidationPolicy: WhenEmpty", "consolidationPolicy: WhenEmptyOrUnderutilized", 1))
	protected := func(p *corev1.PodTemplateSpec) {
		p.Annotations = map[string]string{"karpenter.sh/do-not-disrupt": "true"}
	}
	e.deploy("job", 1, "500m", "512Mi", protected)
	e.running("job", 1)
	old := e.nodes()[0].Name
	e.deploy("db", 1, "5", "10Gi", protected)
	e.running("db", 1)
	tainted := func(n *corev1.Node) bool {
		return slices.ContainsFunc(n.Spec.Taints, func(t corev1.Taint) bool {
			return t.Key == "millwright.sh/drain-out" && t.Effect == corev1.TaintEffectPreferNoSchedule
		})
	}
	e.eventually("the first node is tainted, the other is not", func() string {
		for _, n := range e.nodes() {
			if tainted(&n) != (n.Name == old) {
				return fmt.Sprintf("%s has %v", n.Name, n.Spec.Taints)
			}
		}
		return ""
	})
	e.hasEvent("Node", old, "nothing but these pods keeps it: default/job-")
	if story, _ := e.millctl("why", "node", old); !strings.Contains(story, "runs empty by itself, as DisruptionPolicy drain wants") {
		t.Errorf("the story does not say that the node runs empty:\n%s", story)
	}
	e.deploy("new", 1, "500m", "256Mi")
	e.running("new", 1)
	pods, err := e.kube.CoreV1().Pods("default").List(e.Context(), metav1.ListOptions{LabelSelector: "app=new"})
	if err != nil || len(pods.Items) != 1 || pods.Items[0].Spec.NodeName == old {
		t.Errorf("the new pod runs on the node that is to run empty: %v", err)
	}
	e.scale("job", 0)
	e.eventually("the first node is gone", func() string {
		for _, n := range e.nodes() {
			if n.Name == old {
				return "it is there"
			}
		}
		return ""
	})
	story, _ := e.millctl("why", "node", old)
	for _, text := range []string{"to run empty by themselves, tainted millwright.sh/drain-out: " + old, "(Empty, emptiness)"} {
		if !strings.Contains(story, text) {
			t.Errorf("the node's story does not say %q:\n%s", text, story)
		}
	}
	e.sound()
}
