package plan

import (
	"fmt"
	"strings"
	"testing"

	bufferv1beta1 "millwright/api/autoscaling/v1beta1"
)

// What is not planned for, though it is asked for, is said.
func TestWhatIsLeftOutIsSaid(t *testing.T) {
	buffer := "---\napiVersion: " + bufferv1beta1.Group + "/v1beta1\nkind: CapacityBuffer\nmetadata: {name: b}\nspec: {podTemplateRef: {name: t}, replicas: 2000000000}\n" +
		"---\napiVersion: v1\nkind: PodTemplate\nmetadata: {name: t}\ntemplate: {spec: {containers: [{name: c, resources: {requests: {cpu: 64}}}]}}\n"
	static := strings.Replace(strings.Replace(defaultPool, "spec: {", "spec: {replicas: 2000000000, ", 1), "{name: default}", "{name: static}", 1)
	cfg := configOf(Text("in.yaml", defaultPool+buffer+"---\n"+static))
	cfg.FeatureGates = "CapacityBuffer=true"
	r, err := Run(cfg)
	if err != nil {
		t.Fatal(err)
	}
	var out strings.Builder
	if err := r.WriteTable(&out); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		"1999980000 more are not planned for: all CapacityBuffers together have 20000 virtual pods at most",
		"Static NodePools have at most 500 NodeClaims without an instance at a time: what else they lack follows",
	} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("%q is missing:\n%.2000s", want, out.String())
		}
	}
}

// A plan lists every CapacityBuffer, however many there are.
func TestAllCapacityBuffersAreListed(t *testing.T) {
	const n = 60
	text := defaultPool + "---\napiVersion: v1\nkind: PodTemplate\nmetadata: {name: t}\ntemplate: {spec: {containers: [{name: c, resources: {requests: {cpu: 6400}}}]}}\n"
	for i := range n {
		text += fmt.Sprintf("---\napiVersion: %s/v1beta1\nkind: CapacityBuffer\nmetadata: {name: b%02d}\nspec: {podTemplateRef: {name: t}, replicas: 1}\n", bufferv1beta1.Group, i)
	}
	cfg := configOf(Text("in.yaml", text))
	cfg.FeatureGates = "CapacityBuffer=true"
	r, err := Run(cfg)
	if err != nil {
		t.Fatal(err)
	}
	if len(r.Buffers) != n {
		t.Fatalf("%d of %d are listed", len(r.Buffers), n)
	}
	if last := r.Buffers[n-1]; last.Name != "default/b59" || last.Unschedulable != 1 || last.Reason == "" {
		t.Errorf("the last one is %+v", last)
	}
}
