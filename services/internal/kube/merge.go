package kube

import (
	"context"
	"encoding/json"
	"fmt"
	"reflect"
)

// Update writes what differs between before and after outside the status, as one merge patch bound to
// before's UID and resourceVersion. Without a difference it writes nothing and returns after.
func (r *Resource[T, L]) Update(ctx context.Context, before, after T) (T, error) {
	p, err := difference(before, after, outsideStatus)
	if err != nil || p == nil {
		return after, err
	}
	return r.Patch(ctx, before.GetName(), *p)
}

// UpdateStatus writes what differs in the status, like Update.
func (r *Resource[T, L]) UpdateStatus(ctx context.Context, before, after T) (T, error) {
	p, err := difference(before, after, onlyStatus)
	if err != nil || p == nil {
		return after, err
	}
	return r.PatchStatus(ctx, before.GetName(), *p)
}

func outsideStatus(key string) bool { return key != "status" }
func onlyStatus(key string) bool    { return key == "status" }

// difference returns the merge patch from before to after in the top-level fields that count; nil if none.
func difference(before, after Object, counts func(key string) bool) (*Patch, error) {
	a, err := decoded(before)
	if err != nil {
		return nil, err
	}
	b, err := decoded(after)
	if err != nil {
		return nil, err
	}
	body := map[string]any{}
	for key, value := range mergeOf(a, b) {
		if counts(key) {
			body[key] = value
		}
	}
	if len(body) == 0 {
		return nil, nil
	}
	return &Patch{UID: before.GetUID(), ResourceVersion: before.GetResourceVersion(), Body: body}, nil
}

func decoded(o Object) (map[string]any, error) {
	data, err := json.Marshal(o)
	if err != nil {
		return nil, fmt.Errorf("encode %s: %w", o.GetName(), err)
	}
	var m map[string]any
	if err := json.Unmarshal(data, &m); err != nil {
		return nil, fmt.Errorf("decode %s: %w", o.GetName(), err)
	}
	return m, nil
}

// mergeOf is the JSON merge patch (RFC 7386) that turns a into b: maps recurse, everything else is replaced,
// null removes.
func mergeOf(a, b map[string]any) map[string]any {
	patch := map[string]any{}
	for key := range a {
		if _, kept := b[key]; !kept {
			patch[key] = nil
		}
	}
	for key, want := range b {
		have, exists := a[key]
		if exists && reflect.DeepEqual(have, want) {
			continue
		}
		patch[key] = want
		x, ok := have.(map[string]any)
		if y, both := want.(map[string]any); ok && both {
			patch[key] = mergeOf(x, y)
		}
	}
	return patch
}
