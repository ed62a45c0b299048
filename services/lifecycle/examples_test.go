package lifecycle

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"

	karpv1 "millwright/api/karpenter/v1"
	awsv1 "millwright/api/karpenteraws/v1"
	"millwright/planner/nodepool"
	"millwright/services/lifecycle/nodeclass"
)

// TestExamplesAreValid: nothing in deploy/examples is refused by what is checked beyond the schema, every
// pool comes with its class, and each file begins with what it does.
func TestExamplesAreValid(t *testing.T) {
	files, err := filepath.Glob("../../deploy/examples/*.yaml")
	if err != nil || len(files) < 15 {
		t.Fatalf("%d examples, %v", len(files), err)
	}
	for _, file := range files {
		t.Run(filepath.Base(file), func(t *testing.T) {
			data, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			if !strings.HasPrefix(string(data), "# ") {
				t.Error("no comment says what it does")
			}
			pools, classes := map[string]string{}, map[string]bool{}
			for _, doc := range bytes.Split(data, []byte("\n---\n")) {
				switch {
				case bytes.Contains(doc, []byte("kind: NodePool\n")):
					p := &karpv1.NodePool{}
					read(t, doc, p)
					if err := nodepool.Validate(p); err != nil {
						t.Error(err)
					}
					pools[p.Name] = p.Spec.Template.Spec.NodeClassRef.Name
				default:
					c := &awsv1.EC2NodeClass{}
					read(t, doc, c)
					for _, f := range nodeclass.Validate(c) {
						t.Error(f)
					}
					classes[c.Name] = true
				}
			}
			for pool, class := range pools {
				if !classes[class] {
					t.Errorf("NodePool %s refers to EC2NodeClass %s, which is not in the file", pool, class)
				}
			}
			if len(pools) == 0 {
				t.Error("no NodePool")
			}
		})
	}
}

func read(t *testing.T, doc []byte, into any) {
	t.Helper()
	if err := yaml.Unmarshal(doc, into); err != nil {
		t.Fatal(err)
	}
}
