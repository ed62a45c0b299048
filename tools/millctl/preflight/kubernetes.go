package preflight

import (
	"context"
	"io/fs"
	"maps"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apiextv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apiextclient "k8s.io/apiextensions-apiserver/pkg/client/clientset/clientset"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/client-go/kubernetes"
	"sigs.k8s.io/yaml"

	karpv1 "millwright/api/karpenter/v1"
	"millwright/deploy/crds"
)

// minorMin is the oldest minor version of Kubernetes 1 that Millwright runs on.
const minorMin = 30

const (
	noCluster = "no cluster is known"
	kubeFlag  = "Name a kubeconfig by --kubeconfig or KUBECONFIG."
)

// client of the API server; nil after it has said why there is none.
func client(cfg Config, r *report) kubernetes.Interface {
	if cfg.Kube == nil {
		r.add(Skipped, "", kubeFlag, noCluster)
		return nil
	}
	c, err := kubernetes.NewForConfig(cfg.Kube)
	if err != nil {
		r.add(Failed, "", kubeFlag, "make client: %v", err)
		return nil
	}
	return c
}

func checkVersion(_ context.Context, cfg Config, r *report) {
	c := client(cfg, r)
	if c == nil {
		return
	}
	v, err := c.Discovery().ServerVersion()
	if err != nil {
		r.add(Failed, "", "Look at the kubeconfig and at the network between here and the API server.", "ask the API server: %v", err)
		return
	}
	minor, err := strconv.Atoi(strings.TrimRight(v.Minor, "+"))
	if err != nil || v.Major != "1" || minor < minorMin {
		r.add(Failed, "", "Upgrade the control plane.", "Kubernetes %s is older than 1.%d, the oldest version that Millwright runs on", v.GitVersion, minorMin)
		return
	}
	r.add(OK, "", "", "Kubernetes %s", v.GitVersion)
}

const crdRemedy = "Install or upgrade the chart millwright-crds: helm upgrade --install millwright-crds deploy/charts/millwright-crds."

// checkCRDs compares the CRDs of the cluster with ours: they must be served at our versions, with every field
// of ours. Fields of others do no harm.
func checkCRDs(ctx context.Context, cfg Config, r *report) {
	if cfg.Kube == nil {
		r.add(Skipped, "", kubeFlag, noCluster)
		return
	}
	c, err := apiextclient.NewForConfig(cfg.Kube)
	if err != nil {
		r.add(Failed, "", kubeFlag, "make client: %v", err)
		return
	}
	files, err := fs.Glob(crds.Files, "*.yaml")
	if err != nil {
		r.add(Failed, "", "", "read the CRDs of this binary: %v", err)
		return
	}
	for _, file := range files {
		want := &apiextv1.CustomResourceDefinition{}
		data, err := crds.Files.ReadFile(file)
		if err == nil {
			err = yaml.UnmarshalStrict(data, want)
		}
		if err != nil {
			r.add(Failed, file, "", "read the CRDs of this binary: %v", err)
			continue
		}
		have, err := c.ApiextensionsV1().CustomResourceDefinitions().Get(ctx, want.Name, metav1.GetOptions{})
		switch {
		case apierrors.IsNotFound(err):
			r.add(Failed, want.Name, crdRemedy, "is not installed")
		case err != nil:
			r.add(Skipped, want.Name, "Ask as a user who may read CRDs.", "%v", err)
		default:
			compareCRD(want, have, r)
		}
	}
}

// fieldsNamed bounds how many missing fields a message names.
const fieldsNamed = 5

func compareCRD(want, have *apiextv1.CustomResourceDefinition, r *report) {
	for _, w := range want.Spec.Versions {
		i := slices.IndexFunc(have.Spec.Versions, func(v apiextv1.CustomResourceDefinitionVersion) bool { return v.Name == w.Name && v.Served })
		if i < 0 {
			r.add(Failed, want.Name, crdRemedy, "version %s is not served", w.Name)
			return
		}
		missing := missingFields("", w.Schema.OpenAPIV3Schema, have.Spec.Versions[i].Schema.OpenAPIV3Schema)
		if more := len(missing) - fieldsNamed; more > 0 {
			missing = append(missing[:fieldsNamed], strconv.Itoa(more)+" more")
		}
		if len(missing) > 0 {
			r.add(Failed, want.Name, crdRemedy, "lacks %s: what objects say there is dropped", strings.Join(missing, ", "))
			return
		}
	}
	established := slices.ContainsFunc(have.Status.Conditions, func(c apiextv1.CustomResourceDefinitionCondition) bool {
		return c.Type == apiextv1.Established && c.Status == apiextv1.ConditionTrue
	})
	if !established {
		r.add(Failed, want.Name, "Look at its conditions: kubectl describe crd "+want.Name+".", "is not established")
		return
	}
	r.add(OK, want.Name, "", "is installed, with all fields")
}

// missingFields are the paths of properties that have lacks.
func missingFields(path string, want, have *apiextv1.JSONSchemaProps) []string {
	if want == nil || have == nil || have.XPreserveUnknownFields != nil && *have.XPreserveUnknownFields {
		return nil
	}
	var missing []string
	for _, name := range slices.Sorted(maps.Keys(want.Properties)) {
		below := strings.TrimPrefix(path+"."+name, ".")
		w, h := want.Properties[name], have.Properties[name]
		if _, ok := have.Properties[name]; !ok {
			missing = append(missing, below)
			continue
		}
		missing = append(missing, missingFields(below, &w, &h)...)
	}
	if want.Items != nil && have.Items != nil {
		missing = append(missing, missingFields(path+"[]", want.Items.Schema, have.Items.Schema)...)
	}
	return missing
}

// checkNodes looks for a node that Millwright may run on: it never runs on those it manages.
func checkNodes(ctx context.Context, cfg Config, r *report) {
	c := client(cfg, r)
	if c == nil {
		return
	}
	foreign, err := labels.NewRequirement(karpv1.NodePoolLabelKey, "!", nil)
	if err != nil {
		r.add(Failed, "", "", "%v", err)
		return
	}
	nodes, err := c.CoreV1().Nodes().List(ctx, metav1.ListOptions{LabelSelector: labels.NewSelector().Add(*foreign).String()})
	if err != nil {
		r.add(Skipped, "", "Ask as a user who may list nodes.", "list nodes: %v", err)
		return
	}
	ready := 0
	for _, n := range nodes.Items {
		if !n.Spec.Unschedulable && slices.ContainsFunc(n.Status.Conditions, func(c corev1.NodeCondition) bool {
			return c.Type == corev1.NodeReady && c.Status == corev1.ConditionTrue
		}) {
			ready++
		}
	}
	switch ready {
	case 0:
		r.add(Failed, "", "Make a small node group, or a Fargate profile for the namespace.", "there is no ready node outside of the NodePools, so Millwright cannot run in this cluster")
	case 1:
		r.add(Warning, "", "Have two or more, so that a standby can run beside each service.", "there is one ready node outside of the NodePools")
	default:
		r.add(OK, "", "", "%d ready nodes outside of the NodePools", ready)
	}
}
