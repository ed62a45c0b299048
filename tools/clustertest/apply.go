package clustertest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/yaml"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/discovery/cached/memory"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/restmapper"
)

// Applier applies manifests as `kubectl apply --server-side` does.
type Applier struct {
	Client dynamic.Interface
	Mapper *restmapper.DeferredDiscoveryRESTMapper
	// Keep leaves objects that exist as they are.
	Keep bool
	// Options of each patch; FieldManager is required.
	Options metav1.PatchOptions
}

// NewApplier makes an Applier whose changes belong to manager.
func NewApplier(cfg *rest.Config, manager string) (*Applier, error) {
	client, err := dynamic.NewForConfig(cfg)
	if err != nil {
		return nil, fmt.Errorf("make client: %w", err)
	}
	disco, err := discovery.NewDiscoveryClientForConfig(cfg)
	if err != nil {
		return nil, fmt.Errorf("make client: %w", err)
	}
	force := true
	return &Applier{Client: client, Mapper: restmapper.NewDeferredDiscoveryRESTMapper(memory.NewMemCacheClient(disco)),
		Options: metav1.PatchOptions{FieldManager: manager, Force: &force}}, nil
}

// Decode returns the objects of manifests in YAML, separated by "---".
func Decode(manifests []byte) ([]*unstructured.Unstructured, error) {
	dec := yaml.NewYAMLOrJSONDecoder(bytes.NewReader(manifests), 4096)
	var all []*unstructured.Unstructured
	for {
		obj := &unstructured.Unstructured{}
		if err := dec.Decode(&obj.Object); errors.Is(err, io.EOF) {
			return all, nil
		} else if err != nil {
			return nil, fmt.Errorf("parse manifest: %w", err)
		}
		if len(obj.Object) > 0 {
			all = append(all, obj)
		}
	}
}

// Apply the objects in their order.
func (a *Applier) Apply(ctx context.Context, objects ...*unstructured.Unstructured) error {
	for _, obj := range objects {
		if err := a.applyObject(ctx, obj); err != nil {
			return fmt.Errorf("apply %s %s: %w", obj.GetKind(), obj.GetName(), err)
		}
	}
	return nil
}

func (a *Applier) applyObject(ctx context.Context, obj *unstructured.Unstructured) error {
	gvk := obj.GroupVersionKind()
	mapping, err := a.Mapper.RESTMapping(gvk.GroupKind(), gvk.Version)
	if err != nil {
		return err
	}
	data, err := runtime.Encode(unstructured.UnstructuredJSONScheme, obj)
	if err != nil {
		return err
	}
	var resource dynamic.ResourceInterface = a.Client.Resource(mapping.Resource)
	if ns := obj.GetNamespace(); ns != "" {
		resource = a.Client.Resource(mapping.Resource).Namespace(ns)
	}
	if a.Keep {
		if _, err := resource.Get(ctx, obj.GetName(), metav1.GetOptions{}); !apierrors.IsNotFound(err) {
			return err
		}
	}
	_, err = resource.Patch(ctx, obj.GetName(), types.ApplyPatchType, data, a.Options)
	return err
}
