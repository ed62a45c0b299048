package e2e

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/runtime/schema"
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

// An empty node stays until a person has approved its removal; a rejection keeps it. The log names who
// decided, and the policy's status reports what it selects and what in it cannot be read.
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
