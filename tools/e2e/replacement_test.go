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

	"millwright/planner/ledger"
	"millwright/tools/ec2sim/simclient"
)

// recorded is a record of the log with its payload.
type recorded[P any] struct {
	Seq       uint64
	Causation uint64
	Time      time.Time
	Kind      string
	Payload   P
}

// records returns the records of some kinds, in order; none if there is no log yet.
func records[P any](e *env, kinds ...string) (list []recorded[P]) {
	e.Helper()
	out, code := e.millctl("log", "-o", "json", "--kind", strings.Join(kinds, ","))
	if code != 0 {
		e.Fatalf("read the log: exit %d\n%s", code, out)
	}
	for d := json.NewDecoder(strings.NewReader(out)); d.More(); {
		var r recorded[P]
		if err := d.Decode(&r); err != nil {
			e.Fatalf("read the log: %v\n%s", err, out)
		}
		list = append(list, r)
	}
	return list
}

// launches are the instances that were launched, alone or by a request for several.
func (e *env) launches() (list []ledger.Launched) {
	e.Helper()
	for _, r := range records[ledger.Launched](e, "Launched") {
		list = append(list, r.Payload)
	}
	for _, r := range records[ledger.FleetAnswered](e, "FleetAnswered") {
		list = append(list, r.Payload.Launched...)
	}
	return list
}

// moves are the commands that moved pods away from nodes of a NodePool.
func (e *env) moves(pool string) (list []recorded[ledger.CommandStarted]) {
	e.Helper()
	for _, c := range records[ledger.CommandStarted](e, "CommandMovesStarted") {
		if c.Payload.Candidates[0].NodePool == pool {
			list = append(list, c)
		}
	}
	return list
}

// namedPool is the default NodePool under another name, with nodes of one instance type.
func namedPool(name, instanceType string) string {
	return strings.NewReplacer("metadata: {name: default}", "metadata: {name: "+name+"}",
		"{key: karpenter.k8s.aws/instance-category, operator: In, values: [c, m, r]}",
		"{key: node.kubernetes.io/instance-type, operator: In, values: ["+instanceType+"]}").Replace(defaultPool)
}

// inTemplate adds to the template of a NodePool, next to its spec.
func inTemplate(pool, metadata string) string {
	return strings.Replace(pool, "  template:\n", "  template:\n    metadata: "+metadata+"\n", 1)
}

// onPool makes pods run on nodes of a NodePool only.
func onPool(pool string) func(*corev1.PodTemplateSpec) {
	return func(p *corev1.PodTemplateSpec) {
		p.Spec.NodeSelector = map[string]string{"karpenter.sh/nodepool": pool}
	}
}

// claimsOf are the NodeClaims of a NodePool.
func (e *env) claimsOf(pool string) []unstructured.Unstructured {
	e.Helper()
	return slices.DeleteFunc(e.nodeClaims(), func(c unstructured.Unstructured) bool { return c.GetLabels()["karpenter.sh/nodepool"] != pool })
}

// shakyPool is the NodePool whose replacements fail, with an EC2NodeClass of its own.
func shakyPool(instanceType string) string {
	return strings.Replace(namedPool("shaky", instanceType), "kind: EC2NodeClass, name: default", "kind: EC2NodeClass, name: shaky", 1)
}

// doomedReplacement is one way in which a replacement fails to arrive.
type doomedReplacement struct {
	// drifts makes the node drift towards a replacement that cannot arrive.
	drifts func(e *env)
	// reaches is the last condition that the replacement gets; "" if it gets no instance.
	reaches string
	// ends makes the replacement fail, which would otherwise be waited for until its command is 10 minutes
	// old; nil: it fails by itself.
	ends func(e *env, replacement *unstructured.Unstructured)
}

func TestAReplacementGetsNoCapacity(t *testing.T) {
	e := start(t, nil)
	e.replacementFails(doomedReplacement{drifts: func(e *env) {
		// The pods need two smaller nodes. Only one of them can be had, and it goes when the command is
		// rolled back.
		if err := e.ec2.SetCapacity(e.Context(), simclient.Capacity{InstanceType: "m5.large", Limit: 1}); err != nil {
			e.Fatal(err)
		}
		e.apply(shakyPool("m5.large"))
	}})
}

// That no replacement is waited for longer than 10 minutes is tested on a virtual clock (services/disruptor,
// TestReplacementsAreNotWaitedForForEver). Here the instance ends before it has joined.
func TestAReplacementNeverRegisters(t *testing.T) {
	e := start(t, nil)
	e.replacementFails(doomedReplacement{
		drifts: func(e *env) {
			image := ""
			for _, i := range e.liveInstances() {
				image = i.ImageID
			}
			e.apply(strings.NewReplacer("metadata: {name: default}", "metadata: {name: shaky}", "amiSelectorTerms: [{alias: al2023@latest}]",
				"amiFamily: Custom\n  userData: \"#!/bin/bash\\necho this joins no cluster\\n\"\n  amiSelectorTerms: [{id: "+image+"}]").Replace(defaultClass))
		},
		reaches: "Launched",
		ends: func(e *env, replacement *unstructured.Unstructured) {
			id, _, _ := unstructured.NestedString(replacement.Object, "status", "providerID")
			if err := e.ec2.Terminate(e.Context(), id[strings.LastIndex(id, "/")+1:]); err != nil {
				e.Fatal(err)
			}
		},
	})
}

// A startup taint that is never removed keeps the replacement from being initialized, until a person deletes
// it. The time limit is the same as above.
func TestAReplacementIsNeverInitialized(t *testing.T) {
	e := start(t, nil)
	e.replacementFails(doomedReplacement{
		drifts: func(e *env) {
			e.apply(strings.Replace(shakyPool("m5.xlarge"), "      expireAfter:", "      startupTaints: [{key: example.com/agent, effect: NoSchedule}]\n      expireAfter:", 1))
		},
		reaches: "Registered",
		ends: func(e *env, replacement *unstructured.Unstructured) {
			if err := e.dyn.Resource(claimsGVR).Delete(e.Context(), replacement.GetName(), metav1.DeleteOptions{}); err != nil {
				e.Fatal(err)
			}
		},
	})
}

// replacementFails makes the only node of NodePool shaky drift towards a replacement that does not arrive,
// and the only node of NodePool calm towards one that does. The first command is rolled back: its node keeps
// its pods, without taint and condition, nothing that was made for the command is left, and its NodePool
// waits before it tries again. Meanwhile the node of the other NodePool is replaced.
func (e *env) replacementFails(x doomedReplacement) {
	e.Helper()
	e.apply(defaultClass)
	e.apply(strings.Replace(defaultClass, "metadata: {name: default}", "metadata: {name: shaky}", 1))
	e.apply(shakyPool("m5.xlarge"))
	e.apply(namedPool("calm", "c5.large"))
	e.deploy("web", 2, "1500m", "1Gi", onPool("shaky"))
	e.deploy("other", 1, "1", "1Gi", onPool("calm"))
	e.running("web", 2)
	e.running("other", 1)
	node, pods, calm := e.poolNodes("shaky")[0].Name, e.placesOf("web"), e.poolNodes("calm")[0].Name

	x.drifts(e)
	e.eventually("a command for the node of shaky", func() string {
		if len(e.moves("shaky")) == 0 {
			return "none was started"
		}
		return ""
	})
	var replacement *unstructured.Unstructured
	if x.reaches != "" {
		replacement = e.replacementOf(node, x.reaches)
	}
	e.apply(inTemplate(namedPool("calm", "c5.large"), "{labels: {team: blue}}"))
	e.eventually("the node of calm is replaced", func() string {
		for _, n := range e.poolNodes("calm") {
			if n.Name == calm {
				return "it is there"
			}
		}
		return ""
	})
	if x.ends != nil {
		for _, r := range records[ledger.CommandRolledBack](e, "CommandAbandoned", "CommandRolledBack") {
			if slices.ContainsFunc(e.moves("shaky"), func(c recorded[ledger.CommandStarted]) bool { return c.Seq == r.Causation }) {
				e.Fatalf("command %s was given up although the replacement could still come: %s", r.Payload.ID, r.Payload.Reason)
			}
		}
		x.ends(e, replacement)
	}
	e.givenUp("shaky", node, pods)
	e.running("other", 1)
	e.sound()
}

// replacementOf waits until the NodeClaim that is to replace a node has a condition.
func (e *env) replacementOf(node, reaches string) (replacement *unstructured.Unstructured) {
	e.Helper()
	e.eventually("the replacement of "+node+" is "+reaches, func() string {
		for _, c := range e.claimsOf("shaky") {
			if name, _, _ := unstructured.NestedString(c.Object, "status", "nodeName"); name == node {
				continue
			}
			if status, _, _ := condition(&c, reaches); status == "True" {
				replacement = &c
				return ""
			}
		}
		return "none is"
	})
	return replacement
}

// placesOf returns where the pods of an app run, by UID.
func (e *env) placesOf(app string) map[string]string {
	e.Helper()
	list, err := e.kube.CoreV1().Pods("default").List(e.Context(), metav1.ListOptions{LabelSelector: "app=" + app})
	if err != nil {
		e.Fatal(err)
	}
	places := map[string]string{}
	for _, p := range list.Items {
		places[string(p.UID)] = p.Spec.NodeName
	}
	return places
}

// givenUp waits until a NodePool is as it was before the command for its only node, and checks that nothing
// starts again before the pause on record is over.
func (e *env) givenUp(pool, node string, pods map[string]string) {
	e.Helper()
	e.takenBack(pool, node)
	if now := e.placesOf("web"); fmt.Sprint(now) != fmt.Sprint(pods) {
		e.Errorf("the pods run on %v, they ran on %v", now, pods)
	}
	ended := records[ledger.CommandRolledBack](e, "CommandAbandoned")
	if len(ended) == 0 || !slices.Contains(ended[0].Payload.Failing, pool) {
		e.Fatalf("no record says that replacements of %s fail: %v", pool, ended)
	}
	if again := e.moves(pool); len(again) > 1 && again[1].Time.Sub(ended[0].Time) < time.Minute {
		e.Errorf("a command was started again %s after one was given up", again[1].Time.Sub(ended[0].Time))
	} else if len(again) == 1 {
		e.eventually("why "+node+" stays", func() string {
			story, _ := e.millctl("why", "node", node)
			if !strings.Contains(story, fmt.Sprintf("Replacements of NodePool %q fail, trying again at", pool)) && len(e.moves(pool)) == 1 {
				return story
			}
			return ""
		})
	}
}

// takenBack waits until a NodePool has its only node as if no command had ever started for it, and nothing
// else.
func (e *env) takenBack(pool, node string) {
	e.Helper()
	e.eventually("the command for "+node+" is given up, with all that it made", func() string {
		claims := e.claimsOf(pool)
		if len(claims) != 1 {
			return fmt.Sprintf("%d NodeClaims", len(claims))
		}
		if status, _, _ := condition(&claims[0], "DisruptionReason"); status != "" {
			return "the NodeClaim has its DisruptionReason"
		}
		nodes := e.poolNodes(pool)
		if len(nodes) != 1 || nodes[0].Name != node {
			return fmt.Sprintf("%d nodes", len(nodes))
		}
		if isDisrupted := func(t corev1.Taint) bool { return t.Key == "karpenter.sh/disrupted" }; slices.ContainsFunc(nodes[0].Spec.Taints, isDisrupted) {
			return "the taint is on " + node
		}
		live := slices.DeleteFunc(e.liveInstances(), func(i simclient.Instance) bool { return i.Tags["karpenter.sh/nodepool"] != pool })
		if len(live) != 1 {
			return fmt.Sprintf("%d instances", len(live))
		}
		return ""
	})
}
