package apitest_test

import (
	"context"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	apiextv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apiextclient "k8s.io/apiextensions-apiserver/pkg/client/clientset/clientset"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	"sigs.k8s.io/yaml"

	"millwright/api/conversion"
	"millwright/tools/clustertest"
)

const waitFor = 90 * time.Second

// TestV1beta1 serves v1beta1 beside v1 with the real webhook and works at both versions.
func TestV1beta1(t *testing.T) {
	cluster := clustertest.Start(t)
	serve(t, cluster, "with-v1beta1")
	webhook := startWebhook(t, cluster)
	client, err := dynamic.NewForConfig(cluster.Config)
	if err != nil {
		t.Fatal(err)
	}
	b := &both{client}
	t.Run("written at v1beta1", b.fromBeta)
	t.Run("written at v1", b.fromV1)
	t.Run("a NodeClaim", b.claims)
	t.Run("edited at v1beta1", b.edited)
	t.Run("refused", b.refused)
	t.Run("two replicas", func(t *testing.T) { b.twoReplicas(t, webhook) })
	t.Run("the upgrade ends", func(t *testing.T) { b.ends(t, cluster, webhook) })
}

// crdNames are those of the kinds that have a v1beta1.
var crdNames = []string{"nodepools.karpenter.sh", "nodeclaims.karpenter.sh", "ec2nodeclasses.karpenter.k8s.aws"}

// serve applies the CRDs of a directory below deploy/crds, as `kubectl apply --server-side --force-conflicts`
// does.
func serve(t *testing.T, cluster *clustertest.Cluster, dir string) {
	t.Helper()
	client, err := apiextclient.NewForConfig(cluster.Config)
	if err != nil {
		t.Fatal(err)
	}
	files, err := filepath.Glob(filepath.Join(clustertest.Root(), "deploy", "crds", dir, "*.yaml"))
	if err != nil || len(files) < len(crdNames) {
		t.Fatalf("%d CRDs, error %v", len(files), err)
	}
	for _, file := range files {
		data, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		crd := &apiextv1.CustomResourceDefinition{}
		if err := yaml.UnmarshalStrict(data, crd); err != nil {
			t.Fatal(err)
		}
		force := true
		if _, err := client.ApiextensionsV1().CustomResourceDefinitions().Patch(t.Context(), crd.Name, types.ApplyPatchType, data,
			metav1.PatchOptions{FieldManager: "kubectl", Force: &force}); err != nil {
			t.Fatalf("apply %s: %v", file, err)
		}
	}
}

func freePort(t *testing.T) int {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().(*net.TCPAddr).Port
}

// eventually polls until try gives no error.
func eventually(t *testing.T, what string, try func(context.Context) error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), waitFor)
	defer cancel()
	for {
		err := try(ctx)
		if err == nil {
			return
		}
		select {
		case <-ctx.Done():
			t.Fatalf("%s: %v", what, err)
		case <-time.After(100 * time.Millisecond):
		}
	}
}

// both works with the kinds at both versions.
type both struct{ client dynamic.Interface }

func (b *both) resource(version, plural string) dynamic.NamespaceableResourceInterface {
	group := "karpenter.sh"
	if plural == "ec2nodeclasses" {
		group = "karpenter.k8s.aws"
	}
	return b.client.Resource(schema.GroupVersionResource{Group: group, Version: version, Resource: plural})
}

// create retries while the API server has not yet taken up the CRDs and the webhook's address.
func (b *both) create(t *testing.T, version, plural, text string) *unstructured.Unstructured {
	t.Helper()
	var out *unstructured.Unstructured
	eventually(t, "create", func(ctx context.Context) (err error) {
		out, err = b.resource(version, plural).Create(ctx, &unstructured.Unstructured{Object: parse(t, text)}, metav1.CreateOptions{FieldValidation: "Strict"})
		return err
	})
	return out
}

func (b *both) get(t *testing.T, version, plural, name string) map[string]any {
	t.Helper()
	o, err := b.resource(version, plural).Get(t.Context(), name, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return o.Object
}

func same(t *testing.T, what string, got any, want string) {
	t.Helper()
	if diff := cmp.Diff(any(parse(t, "v: "+want)["v"]), plain(t, got)); diff != "" {
		t.Errorf("%s (-want +got):\n%s", what, diff)
	}
}

func (b *both) fromBeta(t *testing.T) {
	made := b.create(t, "v1beta1", "nodepools", `{apiVersion: karpenter.sh/v1beta1, kind: NodePool, metadata: {name: beta}, spec: {limits: {cpu: 1000m},
template: {spec: {requirements: [], kubelet: {maxPods: 20, evictionSoftGracePeriod: {memory.available: 90s}, evictionSoft: {memory.available: 5%}}, nodeClassRef: {name: default}}}}}`)
	same(t, "defaults", at(made.Object, "spec.disruption"), "{consolidationPolicy: WhenUnderutilized, expireAfter: 720h, budgets: [{nodes: 10%}]}")
	v1 := b.get(t, "v1", "nodepools", "beta")
	same(t, "v1 disruption", at(v1, "spec.disruption"), "{consolidationPolicy: WhenEmptyOrUnderutilized, consolidateAfter: 0s, budgets: [{nodes: 10%}]}")
	same(t, "v1 template", at(v1, "spec.template.spec"), "{requirements: [], expireAfter: 720h, nodeClassRef: {group: karpenter.k8s.aws, kind: EC2NodeClass, name: default}}")
	annotations := at(v1, "metadata.annotations").(map[string]any)
	if annotations[conversion.KubeletAnnotation] == nil || annotations[conversion.NodeClassReferenceAnnotation] != `{"name":"default"}` {
		t.Errorf("v1 annotations are %v", annotations)
	}
	beta := b.get(t, "v1beta1", "nodepools", "beta")
	if diff := cmp.Diff(made.Object["spec"], beta["spec"]); diff != "" || at(beta, "metadata.annotations") != nil {
		t.Errorf("read back at v1beta1 (annotations %v):\n%s", at(beta, "metadata.annotations"), diff)
	}
	class := b.create(t, "v1beta1", "ec2nodeclasses", `{apiVersion: karpenter.k8s.aws/v1beta1, kind: EC2NodeClass, metadata: {name: beta}, spec: {amiFamily: Ubuntu, role: r,
subnetSelectorTerms: [{id: subnet-1}], securityGroupSelectorTerms: [{id: sg-1}]}}`)
	same(t, "hop limit", at(class.Object, "spec.metadataOptions.httpPutResponseHopLimit"), "2")
	same(t, "v1 image terms", at(b.get(t, "v1", "ec2nodeclasses", "beta"), "spec.amiSelectorTerms"), "[{id: ami-placeholder}]")
	if diff := cmp.Diff(class.Object["spec"], b.get(t, "v1beta1", "ec2nodeclasses", "beta")["spec"]); diff != "" {
		t.Errorf("class read back at v1beta1:\n%s", diff)
	}
}

func (b *both) fromV1(t *testing.T) {
	made := b.create(t, "v1", "ec2nodeclasses", `{apiVersion: karpenter.k8s.aws/v1, kind: EC2NodeClass, metadata: {name: now}, spec: {role: r, ipPrefixCount: 2,
amiSelectorTerms: [{alias: al2023@v20240807}], subnetSelectorTerms: [{id: subnet-1}], securityGroupSelectorTerms: [{id: sg-1}]}}`)
	beta := b.get(t, "v1beta1", "ec2nodeclasses", "now")
	same(t, "family", at(beta, "spec.amiFamily"), "AL2023")
	if at(beta, "metadata.annotations").(map[string]any)[conversion.AliasVersionAnnotation] != "v20240807" || at(beta, "spec.amiSelectorTerms") != nil {
		t.Errorf("v1beta1 is %v", beta)
	}
	if _, err := b.resource("v1beta1", "ec2nodeclasses").Update(t.Context(), &unstructured.Unstructured{Object: beta}, metav1.UpdateOptions{FieldValidation: "Strict"}); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(made.Object["spec"], b.get(t, "v1", "ec2nodeclasses", "now")["spec"]); diff != "" {
		t.Errorf("written back at v1beta1 (-was +is):\n%s", diff)
	}
}

func (b *both) claims(t *testing.T) {
	b.create(t, "v1", "nodepools", `{apiVersion: karpenter.sh/v1, kind: NodePool, metadata: {name: weekly}, spec: {template: {spec: {expireAfter: 168h, requirements: [],
nodeClassRef: {group: karpenter.k8s.aws, kind: EC2NodeClass, name: default}}}}}`)
	for name, c := range map[string]struct{ pool, want string }{"ours": {"weekly", "168h"}, "orphan": {"gone", "Never"}} {
		b.create(t, "v1beta1", "nodeclaims", fmt.Sprintf(`{apiVersion: karpenter.sh/v1beta1, kind: NodeClaim, metadata: {name: %s, labels: {karpenter.sh/nodepool: %s}}, spec: {requirements: [], nodeClassRef: {name: default}}}`, name, c.pool))
		same(t, name, at(b.get(t, "v1", "nodeclaims", name), "spec.expireAfter"), c.want)
	}
	list, err := b.resource("v1beta1", "nodeclaims").List(t.Context(), metav1.ListOptions{})
	if err != nil || len(list.Items) != 2 {
		t.Fatalf("%d NodeClaims, error %v", len(list.Items), err)
	}
	for _, c := range list.Items {
		if at(c.Object, "spec.expireAfter") != nil {
			t.Errorf("%s has expireAfter at v1beta1", c.GetName())
		}
	}
}

func (b *both) edited(t *testing.T) {
	o := b.get(t, "v1beta1", "nodepools", "weekly")
	if err := unstructured.SetNestedField(o, "24h", "spec", "disruption", "expireAfter"); err != nil {
		t.Fatal(err)
	}
	if _, err := b.resource("v1beta1", "nodepools").Update(t.Context(), &unstructured.Unstructured{Object: o}, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	same(t, "expireAfter", at(b.get(t, "v1", "nodepools", "weekly"), "spec.template.spec.expireAfter"), "24h")
}

func (b *both) refused(t *testing.T) {
	pool := "{apiVersion: karpenter.sh/v1beta1, kind: NodePool, metadata: {name: bad}, spec: {%s template: {spec: {requirements: [], %s nodeClassRef: {name: default}}}}}"
	class := "{apiVersion: karpenter.k8s.aws/v1beta1, kind: EC2NodeClass, metadata: {name: bad}, spec: {%s, role: r, subnetSelectorTerms: [{id: subnet-1}], securityGroupSelectorTerms: [{id: sg-1}]}}"
	for sentence, c := range map[string]struct{ plural, text, refused string }{
		"WhenEmpty without time":        {"nodepools", fmt.Sprintf(pool, "disruption: {consolidationPolicy: WhenEmpty},", ""), "consolidateAfter must be specified with consolidationPolicy=WhenEmpty"},
		"WhenUnderutilized with a time": {"nodepools", fmt.Sprintf(pool, "disruption: {consolidateAfter: 30s},", ""), "consolidateAfter cannot be combined with consolidationPolicy=WhenUnderutilized"},
		"a policy of v1":                {"nodepools", fmt.Sprintf(pool, "disruption: {consolidationPolicy: WhenEmptyOrUnderutilized},", ""), `supported values: "WhenEmpty", "WhenUnderutilized", "Balanced"`},
		"resources in a template":       {"nodepools", fmt.Sprintf(pool, "", "resources: {requests: {cpu: 1}},"), "must have at most 0 items"},
		"a kubelet of odd keys":         {"nodepools", fmt.Sprintf(pool, "", "kubelet: {kubeReserved: {gpu: '1'}},"), "valid keys for kubeReserved are ['cpu','memory','ephemeral-storage','pid']"},
		"Custom without terms":          {"ec2nodeclasses", fmt.Sprintf(class, "amiFamily: Custom"), "amiSelectorTerms is required when amiFamily == 'Custom'"},
		"no family":                     {"ec2nodeclasses", fmt.Sprintf(class, "tags: {a: b}"), "Required value"},
		"the managed-by tag":            {"ec2nodeclasses", fmt.Sprintf(class, "amiFamily: AL2, tags: {karpenter.sh/managed-by: x}"), "tag contains a restricted tag matching karpenter.sh/managed-by"},
	} {
		t.Run(sentence, func(t *testing.T) {
			_, err := b.resource("v1beta1", c.plural).Create(t.Context(), &unstructured.Unstructured{Object: parse(t, c.text)},
				metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}, FieldValidation: "Strict"})
			check(t, err, c.refused)
		})
	}
}
