package migrate

import (
	"context"
	"fmt"

	apiextclient "k8s.io/apiextensions-apiserver/pkg/client/clientset/clientset"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"
)

const pageSize = 500

// resources are the kinds that had a v1beta1.
var resources = []schema.GroupVersionResource{
	{Group: "karpenter.sh", Version: "v1", Resource: "nodepools"},
	{Group: "karpenter.sh", Version: "v1", Resource: "nodeclaims"},
	{Group: "karpenter.k8s.aws", Version: "v1", Resource: "ec2nodeclasses"},
}

// Read reads CRDs and objects of a cluster. A CRD that is not installed is an error: nothing can be
// reported about such a cluster.
func Read(ctx context.Context, cfg *rest.Config) (Cluster, error) {
	crds, err := apiextclient.NewForConfig(cfg)
	if err != nil {
		return Cluster{}, fmt.Errorf("build client for CRDs: %w", err)
	}
	client, err := dynamic.NewForConfig(cfg)
	if err != nil {
		return Cluster{}, fmt.Errorf("build client: %w", err)
	}
	var out Cluster
	for _, r := range resources {
		name := r.GroupResource().String()
		crd, err := crds.ApiextensionsV1().CustomResourceDefinitions().Get(ctx, name, metav1.GetOptions{})
		if err != nil {
			return Cluster{}, fmt.Errorf("get CRD %s: %w", name, err)
		}
		d := Definition{Name: name, StoredVersions: crd.Status.StoredVersions}
		for _, v := range crd.Spec.Versions {
			if v.Storage {
				d.Storage = v.Name
			}
		}
		out.Definitions = append(out.Definitions, d)
		if err := list(ctx, client.Resource(r), &out); err != nil {
			return Cluster{}, fmt.Errorf("list %s at v1: %w", name, err)
		}
	}
	return out, nil
}

func list(ctx context.Context, client dynamic.ResourceInterface, out *Cluster) error {
	opts := metav1.ListOptions{Limit: pageSize}
	for {
		page, err := client.List(ctx, opts)
		if apierrors.IsNotFound(err) {
			return fmt.Errorf("v1 is not served: %w", err)
		}
		if err != nil {
			return err
		}
		for _, o := range page.Items {
			out.Objects = append(out.Objects, o.Object)
		}
		if opts.Continue = page.GetContinue(); opts.Continue == "" {
			return nil
		}
	}
}
