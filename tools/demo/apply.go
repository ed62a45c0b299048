package main

import (
	"context"
	"embed"
	"fmt"
	"io/fs"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"

	"millwright/tools/clustertest"
)

//go:embed manifests
var manifests embed.FS

// applier applies the demo's manifests.
type applier struct{ *clustertest.Applier }

func newApplier(cfg *rest.Config) (*applier, error) {
	a, err := clustertest.NewApplier(cfg, "demo")
	return &applier{a}, err
}

// apply one of the embedded manifests.
func (a *applier) apply(ctx context.Context, name string) error {
	return a.applyFile(ctx, manifests, "manifests/"+name)
}

func (a *applier) applyFile(ctx context.Context, files fs.FS, name string) error {
	data, err := fs.ReadFile(files, name)
	if err != nil {
		return fmt.Errorf("read manifest: %w", err)
	}
	objects, err := clustertest.Decode(data)
	if err != nil {
		return fmt.Errorf("manifest %s: %w", name, err)
	}
	return a.Apply(ctx, objects...)
}

// ready reports whether an object of group karpenter.sh has condition Ready=True.
func (a *applier) ready(ctx context.Context, resource, name string) bool {
	gvr := schema.GroupVersionResource{Group: "karpenter.sh", Version: "v1", Resource: resource}
	obj, err := a.Client.Resource(gvr).Get(ctx, name, metav1.GetOptions{})
	if err != nil {
		return false
	}
	conditions, _, _ := unstructured.NestedSlice(obj.Object, "status", "conditions")
	for _, c := range conditions {
		if m, ok := c.(map[string]any); ok && m["type"] == "Ready" {
			return m["status"] == "True"
		}
	}
	return false
}

func ptr[T any](v T) *T { return &v }
