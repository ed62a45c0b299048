package apitest_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/yaml"
)

// examples are applied as users apply them, changed, and deleted. The server must not drop or change a field
// of theirs.
func (s *server) examples(t *testing.T) {
	files, err := filepath.Glob("../../deploy/examples/*.yaml")
	if err != nil || len(files) == 0 {
		t.Fatalf("find examples: %v", err)
	}
	for _, file := range files {
		t.Run(filepath.Base(file), func(t *testing.T) {
			data, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			for _, doc := range strings.Split(string(data), "\n---\n") {
				s.example(t, doc)
			}
		})
	}
}

func (s *server) example(t *testing.T, doc string) {
	t.Helper()
	o := &unstructured.Unstructured{}
	if err := yaml.Unmarshal([]byte(doc), &o.Object); err != nil {
		t.Fatal(err)
	}
	k := map[string]kind{"NodePool": nodePool, "EC2NodeClass": nodeClass}[o.GetKind()]
	if o.GroupVersionKind() != k.gvk {
		t.Fatalf("%s %s is of no kind of ours", o.GroupVersionKind(), o.GetName())
	}
	client := s.dynamic.Resource(k.resource())
	body, err := o.MarshalJSON()
	if err != nil {
		t.Fatal(err)
	}
	strict := metav1.PatchOptions{FieldManager: "kubectl", FieldValidation: "Strict"}
	made, err := client.Patch(t.Context(), o.GetName(), types.ApplyPatchType, body, strict)
	check(t, err, "")
	contains(t, o.GetKind()+" "+o.GetName(), made.Object["spec"], o.Object["spec"])

	change := `{"spec":{"disruption":{"budgets":[{"nodes":"3"}]}}}`
	if k.plural == nodeClass.plural {
		change = `{"spec":{"tags":{"changed":"yes"}}}`
	}
	edited, err := client.Patch(t.Context(), o.GetName(), types.MergePatchType, []byte(change), metav1.PatchOptions{FieldValidation: "Strict"})
	check(t, err, "")
	if edited.GetGeneration() != made.GetGeneration()+1 {
		t.Errorf("generation %d after a change of generation %d", edited.GetGeneration(), made.GetGeneration())
	}
	check(t, client.Delete(t.Context(), o.GetName(), metav1.DeleteOptions{}), "")
}

// contains: got has everything want has; the server may add defaults.
func contains(t *testing.T, path string, got, want any) {
	t.Helper()
	switch want := want.(type) {
	case map[string]any:
		have, _ := got.(map[string]any)
		for key, v := range want {
			contains(t, path+"."+key, have[key], v)
		}
	case []any:
		have, _ := got.([]any)
		if len(have) != len(want) {
			t.Errorf("%s has %d entries, want %d", path, len(have), len(want))
			return
		}
		for i, v := range want {
			contains(t, path, have[i], v)
		}
	default:
		a, errA := yaml.Marshal(got)
		b, errB := yaml.Marshal(want)
		if errA != nil || errB != nil || string(a) != string(b) {
			t.Errorf("%s is %v, want %v", path, got, want)
		}
	}
}
