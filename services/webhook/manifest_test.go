package webhook

import (
	"bytes"
	"os"
	"slices"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"sigs.k8s.io/yaml"
)

// TestTheManifestFitsTheDefaults: what deploy/webhook.yaml installs is what the CRDs and the flags' defaults
// expect.
func TestTheManifestFitsTheDefaults(t *testing.T) {
	data, err := os.ReadFile("../../deploy/webhook.yaml")
	if err != nil {
		t.Fatal(err)
	}
	guide, err := os.ReadFile("../../docs/upgrade.md")
	if err != nil {
		t.Fatal(err)
	}
	seen := 0
	for _, doc := range bytes.Split(data, []byte("\n---\n")) {
		var head struct{ Kind string }
		if err := yaml.Unmarshal(doc, &head); err != nil {
			t.Fatal(err)
		}
		into := map[string]any{"ServiceAccount": &corev1.ServiceAccount{}, "Role": &rbacv1.Role{}, "RoleBinding": &rbacv1.RoleBinding{},
			"ClusterRole": &rbacv1.ClusterRole{}, "ClusterRoleBinding": &rbacv1.ClusterRoleBinding{}, "Service": &corev1.Service{}, "Deployment": &appsv1.Deployment{}}[head.Kind]
		if err := yaml.UnmarshalStrict(doc, into); err != nil {
			t.Fatalf("%s: %v", head.Kind, err)
		}
		seen++
		switch o := into.(type) {
		case *corev1.Service:
			if o.Name != "karpenter" || o.Namespace != "kube-system" || o.Spec.Ports[0].Port != 8443 {
				t.Errorf("service is %s/%s:%d", o.Namespace, o.Name, o.Spec.Ports[0].Port)
			}
		case *rbacv1.ClusterRole:
			if names := o.Rules[0].ResourceNames; !slices.Equal(slices.Sorted(slices.Values(names)), slices.Sorted(slices.Values(crdNames))) {
				t.Errorf("may write %v, must write %v", names, crdNames)
			}
		case *appsv1.Deployment:
			if *o.Spec.Replicas < 2 || o.Spec.Template.Spec.Containers[0].Args[0] != "webhook" {
				t.Errorf("deployment is %+v", o.Spec)
			}
			if wait := "kubectl wait deployment/" + o.Name + " -n " + o.Namespace + " --for=condition=Available"; !bytes.Contains(guide, []byte(wait)) {
				t.Errorf("docs/upgrade.md does not say %q", wait)
			}
		}
	}
	if seen != 7 {
		t.Errorf("%d objects", seen)
	}
}
