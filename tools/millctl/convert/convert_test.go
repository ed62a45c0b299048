package convert

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

var rewrite = flag.Bool("rewrite", false, "write the results as the expected ones")

// TestManifests converts testdata/FROM-to-VERSION.in.yaml; the expected result and notes are in the .out.yaml
// next to it.
func TestManifests(t *testing.T) {
	files, err := filepath.Glob("testdata/*.in.yaml")
	if err != nil || len(files) < 5 {
		t.Fatalf("%d files, error %v", len(files), err)
	}
	for _, file := range files {
		name := strings.TrimSuffix(filepath.Base(file), ".in.yaml")
		t.Run(name, func(t *testing.T) {
			data, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			_, to, _ := strings.Cut(name, "-to-")
			out, notes, err := Run(Options{To: to, Workloads: strings.HasPrefix(name, "workloads")}, []Source{{name, data}})
			if err != nil {
				t.Fatal(err)
			}
			var got strings.Builder
			for _, n := range notes {
				fmt.Fprintf(&got, "# %s\n", n)
			}
			got.Write(out)
			expected := strings.Replace(file, ".in.", ".out.", 1)
			if *rewrite {
				if err := os.WriteFile(expected, []byte(got.String()), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			want, err := os.ReadFile(expected)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(string(want), got.String()); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

func TestOtherDocumentsPassByteForByte(t *testing.T) {
	text := "# head\n---\na:   [1,   2]  # odd\na: 3\n--- # second\n\"x\" : &a {y: z}\nq: *a\n---\n\n---\napiVersion: v1\nkind: Pod\n...\n"
	out, notes, err := Run(Options{To: "v1"}, []Source{{"f", []byte(text)}})
	if err != nil || len(notes) > 0 || string(out) != text {
		t.Errorf("error %v, notes %v, got\n%q\nwant\n%q", err, notes, out, text)
	}
}

func TestBadManifestsAreRefusedByFileObjectAndField(t *testing.T) {
	for sentence, c := range map[string]struct{ text, want string }{
		"broken YAML":        {"a: [", "f: document 1: parse YAML"},
		"a template of Helm": {"a: b\n---\n{{ if x }}\n", "f: document 2"},
		"a launch template":  {"{apiVersion: karpenter.k8s.aws/v1alpha1, kind: AWSNodeTemplate, metadata: {name: t}, spec: {launchTemplate: x}}", `f: AWSNodeTemplate t: cannot convert with "spec.launchTemplate"`},
		"no provider":        {"{apiVersion: karpenter.sh/v1alpha5, kind: Provisioner, metadata: {name: p}, spec: {}}", "f: Provisioner p: spec.providerRef: is required"},
		"a TTL of words":     {"{apiVersion: karpenter.sh/v1alpha5, kind: Provisioner, metadata: {name: p}, spec: {providerRef: {name: x}, ttlSecondsAfterEmpty: soon}}", "f: Provisioner p: spec.ttlSecondsAfterEmpty: must be an integer"},
		"a pool of words":    {"{apiVersion: karpenter.sh/v1beta1, kind: NodePool, metadata: {name: p}, spec: {weight: heavy}}", "f: NodePool p: spec.weight: must be an integer"},
		"a document's end":   {"a: b\n...\nc: d\n", "f: document 1: there is more than one document in it"},
		"JSON behind JSON":   {"x: y\n---\n{a: b}\n{c: d}\n", "f: document 2: there is more than one document in it"},
		"returns alone":      {"a: b\r---\rc: d\r", "f: document 1: there is more than one document in it"},
		"a key twice":        {"a: b\n---\n{apiVersion: karpenter.sh/v1beta1, kind: NodePool, metadata: {name: p}, spec: {weight: 5,\n  weight: 7}}", `f: NodePool p: line 2: key "weight" is there twice`},
		"an unknown version": {"{apiVersion: karpenter.sh/v2, kind: NodePool, metadata: {name: p}, spec: {}}", `unknown version "v2"`},
	} {
		t.Run(sentence, func(t *testing.T) {
			out, _, err := Run(Options{To: "v1"}, []Source{{"f", []byte(c.text)}})
			if err == nil || !strings.Contains(err.Error(), c.want) || out != nil {
				t.Errorf("got %q, error %v; want %q", out, err, c.want)
			}
		})
	}
}
