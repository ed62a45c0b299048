package kube

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/gentype"
	"k8s.io/client-go/rest"
)

// Object is a pointer to an API type.
type Object interface {
	runtime.Object
	metav1.Object
}

// Resource is one kind: objects of type T, lists of type L; of a namespaced kind those of one namespace, or
// all to list and watch.
type Resource[T Object, L runtime.Object] struct {
	typed *gentype.ClientWithList[T, L]
	of    func(namespace string) *gentype.ClientWithList[T, L]
}

func newResource[T Object, L runtime.Object](plural string, c rest.Interface, object func() T, list func() L) *Resource[T, L] {
	of := func(namespace string) *gentype.ClientWithList[T, L] {
		return gentype.NewClientWithList(plural, c, parameterCodec(), namespace, object, list)
	}
	return &Resource[T, L]{typed: of(""), of: of}
}

// In is the kind in one namespace.
func (r *Resource[T, L]) In(namespace string) *Resource[T, L] {
	return &Resource[T, L]{typed: r.of(namespace), of: r.of}
}

// Get reads the object from the API server, not from a cache.
func (r *Resource[T, L]) Get(ctx context.Context, name string) (T, error) {
	return r.typed.Get(ctx, name, metav1.GetOptions{})
}

// List and Watch have the shape informers need.
func (r *Resource[T, L]) List(ctx context.Context, opts metav1.ListOptions) (L, error) {
	return r.typed.List(ctx, opts)
}

// Watch streams changes.
func (r *Resource[T, L]) Watch(ctx context.Context, opts metav1.ListOptions) (watch.Interface, error) {
	return r.typed.Watch(ctx, opts)
}

// Create makes the object. AlreadyExists says nothing about who made the one that exists.
func (r *Resource[T, L]) Create(ctx context.Context, obj T) (T, error) {
	return r.typed.Create(ctx, obj, metav1.CreateOptions{})
}

// Delete asks for deletion of the object with this UID; another UID under the name is a Conflict. An empty
// uid deletes whatever has the name.
func (r *Resource[T, L]) Delete(ctx context.Context, name string, uid types.UID) error {
	return r.typed.Delete(ctx, name, metav1.DeleteOptions{Preconditions: uidPrecondition(uid)})
}

// Patch applies a merge patch to the object.
func (r *Resource[T, L]) Patch(ctx context.Context, name string, p Patch) (T, error) {
	return r.patch(ctx, name, p)
}

// PatchStatus applies a merge patch to the status subresource.
func (r *Resource[T, L]) PatchStatus(ctx context.Context, name string, p Patch) (T, error) {
	return r.patch(ctx, name, p, "status")
}

func (r *Resource[T, L]) patch(ctx context.Context, name string, p Patch, sub ...string) (T, error) {
	data, err := p.encode()
	if err != nil {
		var none T
		return none, err
	}
	return r.typed.Patch(ctx, name, types.MergePatchType, data, metav1.PatchOptions{}, sub...)
}

// Patch is a JSON merge patch (RFC 7386) with preconditions. A list in Body replaces the whole list: then
// ResourceVersion must be set, or a concurrent change is lost.
type Patch struct {
	// UID and ResourceVersion the object must have; empty means any. A mismatch is a Conflict.
	UID             types.UID
	ResourceVersion string
	// Body is the patch without the preconditions; it is not changed.
	Body map[string]any
}

func (p Patch) encode() ([]byte, error) {
	body := make(map[string]any, len(p.Body)+1)
	maps.Copy(body, p.Body)
	if p.UID != "" || p.ResourceVersion != "" {
		meta := map[string]any{}
		if given, ok := p.Body["metadata"].(map[string]any); ok {
			maps.Copy(meta, given)
		}
		if p.UID != "" {
			meta["uid"] = p.UID
		}
		if p.ResourceVersion != "" {
			meta["resourceVersion"] = p.ResourceVersion
		}
		body["metadata"] = meta
	}
	data, err := json.Marshal(body)
	if err != nil {
		return nil, fmt.Errorf("encode patch: %w", err)
	}
	return data, nil
}

func uidPrecondition(uid types.UID) *metav1.Preconditions {
	if uid == "" {
		return nil
	}
	return &metav1.Preconditions{UID: &uid}
}
