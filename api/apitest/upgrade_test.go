package apitest_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	apiextclient "k8s.io/apiextensions-apiserver/pkg/client/clientset/clientset"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"millwright/api/conversion"
	"millwright/tools/clustertest"
	"millwright/tools/millctl/migrate"
)

// migrateCheck runs `millctl migrate check` and returns what it printed and its exit status.
func migrateCheck(t *testing.T, cluster *clustertest.Cluster, args ...string) (string, int) {
	t.Helper()
	bin, err := clustertest.Binary("millctl")
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(bin, append([]string{"migrate", "check", "--kubeconfig", cluster.Kubeconfig}, args...)...)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if exit := (*exec.ExitError)(nil); err != nil && !errors.As(err, &exit) {
		t.Fatal(err)
	}
	if stderr.Len() > 0 {
		t.Errorf("millctl: %s", stderr.Bytes())
	}
	return string(out), cmd.ProcessState.ExitCode()
}

// documented is the patch in docs/upgrade.md that follows these words, up to the quote.
func documented(t *testing.T, words string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(clustertest.Root(), "docs", "upgrade.md"))
	if err != nil {
		t.Fatal(err)
	}
	_, rest, found := strings.Cut(string(text), words)
	patch, _, closed := strings.Cut(rest, "'")
	if !found || !closed {
		t.Fatalf("docs/upgrade.md has no patch behind %q", words)
	}
	return patch
}

// ends plays the end of the aggressive path of docs/upgrade.md in the cluster that the other cases left:
// check, clean, check, drop v1beta1.
func (b *both) ends(t *testing.T, cluster *clustertest.Cluster, webhook *replicas) {
	ext, err := apiextclient.NewForConfig(cluster.Config)
	if err != nil {
		t.Fatal(err)
	}
	crds := ext.ApiextensionsV1().CustomResourceDefinitions()
	stored := func(versions string) {
		t.Helper()
		for _, name := range crdNames {
			if _, err := crds.Patch(t.Context(), name, types.MergePatchType, []byte(versions), metav1.PatchOptions{}, "status"); err != nil {
				t.Fatal(err)
			}
		}
	}
	patch := func(plural, name, body string) {
		t.Helper()
		if _, err := b.resource("v1", plural).Patch(t.Context(), name, types.MergePatchType, []byte(body), metav1.PatchOptions{}); err != nil {
			t.Fatalf("patch %s %s: %v", plural, name, err)
		}
	}
	stored(`{"status":{"storedVersions":["v1beta1","v1"]}}`) // as if objects had been written before v1 was stored

	text, status := migrateCheck(t, cluster)
	if status != 2 || !strings.Contains(text, "must  NodePool beta: metadata.annotations["+conversion.KubeletAnnotation+"]: ") {
		t.Errorf("exit status %d:\n%s", status, text)
	}
	encoded, status := migrateCheck(t, cluster, "-o", "json")
	var findings []migrate.Finding
	if err := json.Unmarshal([]byte(encoded), &findings); err != nil || status != 2 || len(findings) != strings.Count(text, "\n") {
		t.Fatalf("exit status %d, error %v:\n%s", status, err, encoded)
	}
	var must []string
	for _, f := range findings {
		if f.Blocking {
			must = append(must, f.Object+" "+f.Field)
		}
	}
	want := []string{"NodePool beta metadata.annotations[" + conversion.KubeletAnnotation + "]", "EC2NodeClass beta metadata.annotations[" + conversion.UbuntuAnnotation + "]"}
	for _, name := range crdNames {
		want = append(want, "CustomResourceDefinition "+name+" status.storedVersions")
	}
	slices.Sort(want)
	slices.Sort(must)
	if !slices.Equal(must, want) {
		t.Errorf("must be cleaned:\n  %s\nwant\n  %s", strings.Join(must, "\n  "), strings.Join(want, "\n  "))
	}

	patch("nodepools", "beta", `{"metadata":{"annotations":{"`+conversion.KubeletAnnotation+`":null}}}`)
	patch("ec2nodeclasses", "beta", `{"metadata":{"annotations":{"`+conversion.UbuntuAnnotation+`":null}},"spec":{"amiFamily":"AL2","amiSelectorTerms":[{"id":"ami-1"}]}}`)
	for _, plural := range []string{"nodepools", "nodeclaims", "ec2nodeclasses"} {
		list, err := b.resource("v1", plural).List(t.Context(), metav1.ListOptions{})
		if err != nil || len(list.Items) == 0 {
			t.Fatalf("%d %s, error %v", len(list.Items), plural, err)
		}
		for _, o := range list.Items {
			patch(plural, o.GetName(), `{"metadata":{"annotations":{"karpenter.sh/stored-version-migrated":"true"}}}`)
		}
	}
	if _, status := migrateCheck(t, cluster); status != 2 {
		t.Errorf("with v1beta1 among the stored versions the exit status is %d", status)
	}
	stored(documented(t, "--subresource=status --type=merge -p '"))
	if text, status := migrateCheck(t, cluster); status != 0 || strings.Contains(text, "must") {
		t.Errorf("cleaned, and exit status %d:\n%s", status, text)
	}

	for _, name := range crdNames {
		if _, err := crds.Patch(t.Context(), name, types.JSONPatchType, []byte(documented(t, "--type=json -p '")), metav1.PatchOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	serve(t, cluster, "")
	for i := range webhook.list {
		webhook.stop(i)
	}
	for _, plural := range []string{"nodepools", "nodeclaims", "ec2nodeclasses"} {
		list, err := b.resource("v1", plural).List(t.Context(), metav1.ListOptions{})
		if err != nil || len(list.Items) == 0 {
			t.Errorf("without webhook: %d %s, error %v", len(list.Items), plural, err)
		}
	}
	if got := at(b.get(t, "v1", "ec2nodeclasses", "beta"), "spec.amiFamily"); got != "AL2" {
		t.Errorf("the cleaned class has family %v", got)
	}
}
