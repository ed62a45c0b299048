package apitest_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"sigs.k8s.io/yaml"

	"millwright/tools/clustertest"
)

// TestAPI starts the one control plane and runs every table against it.
func TestAPI(t *testing.T) {
	cluster := clustertest.Start(t)
	client, err := dynamic.NewForConfig(cluster.Config)
	if err != nil {
		t.Fatal(err)
	}
	core, err := kubernetes.NewForConfig(cluster.Config)
	if err != nil {
		t.Fatal(err)
	}
	s := &server{dynamic: client, core: core}
	t.Run("NodePool", func(t *testing.T) {
		s.verdicts(t, nodePool, slices.Concat(nodePools(), requirements(true), labels(), durations()))
	})
	t.Run("NodeClaim", func(t *testing.T) { s.verdicts(t, nodeClaim, slices.Concat(nodeClaims(), requirements(false))) })
	t.Run("EC2NodeClass", func(t *testing.T) {
		s.verdicts(t, nodeClass, slices.Concat(nodeClasses(), imageTerms(), selectorTerms(), volumes(), interfaces(), kubelets()))
	})
	t.Run("NodeOverlay", func(t *testing.T) { s.verdicts(t, nodeOverlay, nodeOverlays()) })
	t.Run("DisruptionPolicy", func(t *testing.T) { s.verdicts(t, disruptionPolicy, disruptionPolicies()) })
	t.Run("defaults", s.defaults)
	t.Run("updates", s.updates)
	t.Run("statuses", s.statuses)
	t.Run("columns", s.columns)
	t.Run("names", s.names)
	t.Run("scale", s.scale)
	t.Run("round trips", s.roundTrips)
	t.Run("examples", s.examples)
}

type server struct {
	dynamic dynamic.Interface
	core    kubernetes.Interface
	made    int
}

// kind is a kind under test with the spec that its cases change.
type kind struct {
	gvk    schema.GroupVersionKind
	plural string
	base   string
}

func (k kind) resource() schema.GroupVersionResource {
	return k.gvk.GroupVersion().WithResource(k.plural)
}

var (
	nodePool = kind{schema.GroupVersionKind{Group: "karpenter.sh", Version: "v1", Kind: "NodePool"}, "nodepools", `
template: {spec: {requirements: [], nodeClassRef: {group: karpenter.k8s.aws, kind: EC2NodeClass, name: default}}}`}
	nodeClaim = kind{schema.GroupVersionKind{Group: "karpenter.sh", Version: "v1", Kind: "NodeClaim"}, "nodeclaims", `
requirements: []
nodeClassRef: {group: karpenter.k8s.aws, kind: EC2NodeClass, name: default}`}
	nodeClass = kind{schema.GroupVersionKind{Group: "karpenter.k8s.aws", Version: "v1", Kind: "EC2NodeClass"}, "ec2nodeclasses", `
role: nodes
amiSelectorTerms: [{alias: al2023@latest}]
subnetSelectorTerms: [{tags: {discovery: mine}}]
securityGroupSelectorTerms: [{tags: {discovery: mine}}]`}
	disruptionPolicy = kind{schema.GroupVersionKind{Group: "millwright.sh", Version: "v1alpha1", Kind: "DisruptionPolicy"}, "disruptionpolicies", "{}"}
	nodeOverlay      = kind{schema.GroupVersionKind{Group: "karpenter.sh", Version: "v1alpha1", Kind: "NodeOverlay"}, "nodeoverlays", "requirements: []"}
)

// verdict is a case: the base spec with a merge patch, and the message it is refused with ("" if it is
// accepted).
type verdict struct{ sentence, patch, refused string }

func accepts(sentence, patch string) verdict          { return verdict{sentence, patch, ""} }
func refuses(sentence, patch, message string) verdict { return verdict{sentence, patch, message} }

// each makes one verdict per value, filling %s of the patch.
func each(sentence, patch, refused string, values ...string) []verdict {
	var out []verdict
	for _, v := range values {
		out = append(out, verdict{sentence + ": " + v, strings.ReplaceAll(patch, "%s", v), refused})
	}
	return out
}

// repeated joins n items for a YAML list or map.
func repeated(n int, item func(i int) string) string {
	items := make([]string, n)
	for i := range items {
		items[i] = item(i)
	}
	return strings.Join(items, ", ")
}

func (s *server) verdicts(t *testing.T, k kind, cases []verdict) {
	t.Logf("%d cases", len(cases))
	seen := map[string]bool{}
	for _, c := range cases {
		if seen[c.sentence] {
			t.Errorf("two cases are called %q", c.sentence)
		}
		seen[c.sentence] = true
		t.Run(c.sentence, func(t *testing.T) {
			_, err := s.create(t.Context(), k, object(t, k, c.patch), metav1.DryRunAll)
			check(t, err, c.refused)
		})
	}
}

// check compares an answer with the message expected: one cause of the refusal must end in it.
func check(t *testing.T, err error, refused string) {
	t.Helper()
	switch {
	case refused == "" && err != nil:
		t.Fatalf("refused: %v", err)
	case refused == "":
		return
	case err == nil:
		t.Fatalf("accepted, want refusal with %q", refused)
	}
	for _, m := range causes(err) {
		if strings.HasSuffix(m, refused) {
			return
		}
	}
	t.Fatalf("refused with\n  %s\nwant\n  %s", strings.Join(causes(err), "\n  "), refused)
}

func causes(err error) []string {
	var status apierrors.APIStatus
	if !errors.As(err, &status) || status.Status().Details == nil || len(status.Status().Details.Causes) == 0 {
		return []string{err.Error()}
	}
	var out []string
	for _, c := range status.Status().Details.Causes {
		out = append(out, c.Message)
	}
	return out
}

// create sends an object; unknown fields are errors, so that a field missing from the schema is not lost in
// silence.
func (s *server) create(ctx context.Context, k kind, o *unstructured.Unstructured, dryRun ...string) (*unstructured.Unstructured, error) {
	s.made++
	o.SetName(fmt.Sprintf("o%d", s.made))
	return s.dynamic.Resource(k.resource()).Create(ctx, o, metav1.CreateOptions{DryRun: dryRun, FieldValidation: "Strict"})
}

// object is the kind's base with a patch of its spec.
func object(t *testing.T, k kind, patch string) *unstructured.Unstructured {
	t.Helper()
	o := &unstructured.Unstructured{Object: map[string]any{"spec": patched(t, parse(t, k.base), patch)}}
	o.SetGroupVersionKind(k.gvk)
	return o
}

func parse(t *testing.T, text string) map[string]any {
	t.Helper()
	out := map[string]any{}
	if err := yaml.Unmarshal([]byte(text), &out); err != nil {
		t.Fatalf("parse %q: %v", text, err)
	}
	return out
}

// patched applies a JSON merge patch in YAML.
func patched(t *testing.T, base map[string]any, patch string) map[string]any {
	t.Helper()
	return merge(base, parse(t, patch))
}

func merge(base, patch map[string]any) map[string]any {
	out := maps.Clone(base)
	if out == nil {
		out = map[string]any{}
	}
	for key, v := range patch {
		inner, isMap := v.(map[string]any)
		switch {
		case v == nil:
			delete(out, key)
		case isMap:
			have, _ := out[key].(map[string]any)
			out[key] = merge(have, inner)
		default:
			out[key] = v
		}
	}
	return out
}
