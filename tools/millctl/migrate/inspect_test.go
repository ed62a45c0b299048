package migrate

import (
	"strings"
	"testing"

	"sigs.k8s.io/yaml"

	"millwright/api/conversion"
)

func objects(t *testing.T, text string) []conversion.Object {
	t.Helper()
	var out []conversion.Object
	if err := yaml.Unmarshal([]byte("["+text+"]"), &out); err != nil {
		t.Fatal(err)
	}
	return out
}

func TestFindings(t *testing.T) {
	pool := func(name, class, kubelet string) string {
		return "{kind: NodePool, metadata: {name: " + name + ", annotations: {" + kubelet + "}}, spec: {template: {spec: {nodeClassRef: {group: g, kind: k, name: " + class + "}}}}}"
	}
	const key = "compatibility.karpenter.sh/v1beta1-kubelet-conversion: "
	for sentence, c := range map[string]struct {
		cluster Cluster
		want    []string
	}{
		"a clean cluster": {Cluster{Definitions: []Definition{{"crd", []string{"v1"}, "v1"}}, Objects: objects(t, pool("p", "c", ""))}, nil},
		"v1beta1 is stored": {Cluster{Definitions: []Definition{{"crd", []string{"v1beta1", "v1"}, "v1"}, {"old", []string{"v1beta1"}, "v1beta1"}}},
			[]string{"must  CustomResourceDefinition crd: status.storedVersions: has v1beta1", "must  CustomResourceDefinition old: spec.versions: v1beta1 is the storage version"}},
		"annotations are left": {Cluster{Objects: objects(t, "{kind: EC2NodeClass, metadata: {name: c, annotations: {compatibility.karpenter.k8s.aws/v1-alias-version: v1, compatibility.karpenter.k8s.aws/v1beta1-ubuntu: amiFamily}}}")},
			[]string{"must  EC2NodeClass c: metadata.annotations[compatibility.karpenter.k8s.aws/v1beta1-ubuntu]", "may   EC2NodeClass c: metadata.annotations[compatibility.karpenter.k8s.aws/v1-alias-version]"}},
		"a NodeClaim's annotation goes with it": {Cluster{Objects: objects(t, "{kind: NodeClaim, metadata: {name: c, annotations: {"+key+"'{}'}}, spec: {nodeClassRef: {kind: k, group: g}}}")},
			[]string{"may   NodeClaim c: metadata.annotations"}},
		"a reference without group": {Cluster{Objects: objects(t, "{kind: NodeClaim, metadata: {name: c}, spec: {nodeClassRef: {kind: k, name: n}}}")},
			[]string{"must  NodeClaim c: spec.nodeClassRef.group: is empty"}},
		"a shared class of one block": {Cluster{Objects: objects(t, "{kind: EC2NodeClass, metadata: {name: c}},"+pool("a", "c", key+`'{"maxPods":1,"podsPerCore":2}'`)+","+pool("b", "c", key+`'{"podsPerCore":2, "maxPods":1}'`))},
			[]string{"must  NodePool a: metadata.annotations", "must  NodePool b: metadata.annotations"}},
		"a shared class of two blocks": {Cluster{Objects: objects(t, "{kind: EC2NodeClass, metadata: {name: c}},"+pool("b", "c", key+`'{"maxPods":1}'`)+","+pool("a", "c", ""))},
			[]string{"must  EC2NodeClass c: spec.kubelet: the NodePools a, b share this class", "must  NodePool b: metadata.annotations"}},
	} {
		t.Run(sentence, func(t *testing.T) {
			got := Inspect(c.cluster)
			if len(got) != len(c.want) {
				t.Fatalf("found %v, want %d", got, len(c.want))
			}
			for i, f := range got {
				if !strings.HasPrefix(f.String(), c.want[i]) {
					t.Errorf("found\n  %s\nwant\n  %s", f, c.want[i])
				}
			}
		})
	}
}

func TestEveryCompatibilityAnnotationHasAText(t *testing.T) {
	for _, key := range conversion.CompatibilityAnnotations() {
		if texts[key].problem == "" {
			t.Errorf("%s has none", key)
		}
	}
}
