package drifthash

import (
	_ "embed"
	"encoding/json"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	karpv1 "millwright/api/karpenter/v1"
	awsv1 "millwright/api/karpenteraws/v1"
)

//go:embed testdata/vectors.json
var vectorsJSON []byte

// vectors are inputs and what Karpenter computes of them, without a CA bundle.
type vectors struct {
	NodePool []struct {
		Name     string
		Template karpv1.NodeClaimTemplate
		V3       string
	}
	EC2NodeClass []struct {
		Name   string
		Spec   awsv1.EC2NodeClassSpec
		V4, V5 string
	}
}

func readVectors(t *testing.T) vectors {
	t.Helper()
	var all vectors
	if err := json.Unmarshal(vectorsJSON, &all); err != nil || len(all.NodePool) < 21 || len(all.EC2NodeClass) < 25 {
		t.Fatal(err, len(all.NodePool), len(all.EC2NodeClass))
	}
	return all
}

// The rules: api §9.
func TestNodePoolVectors(t *testing.T) {
	for _, v := range readVectors(t).NodePool {
		if got := NodePool(v.Template); got != v.V3 {
			t.Errorf("%s: %s, want %s", v.Name, got, v.V3)
		}
	}
}

// A time of the API is read in the zone of the process, and a binary time holds its zone.
func TestTheZoneOfTheProcessDoesNotCount(t *testing.T) {
	at := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	hash := func(zone *time.Location) string {
		taints := []corev1.Taint{{Key: "a", Effect: "NoSchedule", TimeAdded: &metav1.Time{Time: at.In(zone)}}}
		got := NodePool(karpv1.NodeClaimTemplate{Spec: karpv1.NodeClaimTemplateSpec{Taints: taints, StartupTaints: taints}})
		if taints[0].TimeAdded.Location() != zone {
			t.Error("the template was changed")
		}
		return got
	}
	inSync := func(of *time.Location, with string) bool {
		taints := []corev1.Taint{{Key: "a", Effect: "NoSchedule", TimeAdded: &metav1.Time{Time: at.In(of)}}}
		return slices.Contains(NodePools(karpv1.NodeClaimTemplate{Spec: karpv1.NodeClaimTemplateSpec{Taints: taints, StartupTaints: taints}}), with)
	}
	const former = "658966830990998077" // what a process in Central Europe wrote
	if cet := time.FixedZone("CET", 3600); !inSync(cet, former) {
		t.Error("what was written by a former version is no longer in sync")
	}
	want := hash(time.FixedZone("", 0)) // as Karpenter's image has it, whose local zone is UTC
	for _, zone := range []*time.Location{time.UTC, time.FixedZone("CET", 3600), time.FixedZone("NPT", 20700)} {
		if got := hash(zone); got != want {
			t.Errorf("in %s: %s, want %s", zone, got, want)
		}
	}
}

// familyOf is enough of a resolution for the vectors.
func familyOf(s awsv1.EC2NodeClassSpec) string {
	if s.AMIFamily != nil {
		return *s.AMIFamily
	}
	if strings.HasPrefix(s.AMISelectorTerms[0].Alias, "bottlerocket@") {
		return awsv1.AMIFamilyBottlerocket
	}
	return awsv1.AMIFamilyAL2023
}

// The rules: api §9.
func TestEC2NodeClassVectors(t *testing.T) {
	for _, v := range readVectors(t).EC2NodeClass {
		for version, want := range map[string]string{NodeClassV4: v.V4, NodeClassV5: v.V5} {
			if got := NodeClass(version, &v.Spec, familyOf(v.Spec), ""); got != want {
				t.Errorf("%s, %s: %s, want %s", v.Name, version, got, want)
			}
		}
	}
}

func TestCABundleCountsFromV5On(t *testing.T) {
	spec := &readVectors(t).EC2NodeClass[0].Spec
	if NodeClass(NodeClassV4, spec, "AL2023", "Y2E=") != NodeClass(NodeClassV4, spec, "AL2023", "") {
		t.Error("v4 knows no CA bundle")
	}
	if NodeClass(NodeClassV5, spec, "AL2023", "Y2E=") == NodeClass(NodeClassV5, spec, "AL2023", "") {
		t.Error("v5 knows the CA bundle")
	}
	if got := NodeClass("v3", spec, "AL2023", ""); got != "" {
		t.Errorf("v3: %s", got)
	}
}
