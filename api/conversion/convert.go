package conversion

import (
	"context"
	"fmt"
	"slices"
	"strings"
)

// PoolReader says when nodes of a living NodePool expire: the text of template.spec.expireAfter in v1. found
// is false if no NodePool of the name lives.
type PoolReader func(ctx context.Context, name string) (expireAfter string, found bool, err error)

// Loss is a field that the version asked for cannot say.
type Loss struct {
	Path, Why string
}

func (l Loss) String() string { return l.Path + ": " + l.Why }

// Converter converts objects. The zero value converts NodeClaims as if no NodePool lived.
type Converter struct {
	// Pool is asked for each v1beta1 NodeClaim with a NodePool.
	Pool PoolReader
}

// Convert returns the object at the API version asked for (group/version), and what that version could not
// say. Errors name kind, name and, as a FieldError inside, the field. An object that has that version already
// is returned as it is. Lists of the kinds are converted item by item.
func (c Converter) Convert(ctx context.Context, o Object, apiVersion string) (Object, []Loss, error) {
	out, losses, err := c.convert(ctx, o, apiVersion)
	if err != nil {
		return nil, nil, fmt.Errorf("convert %s to %s: %w", Name(o), apiVersion, err)
	}
	return out, losses, nil
}

// Name is how messages call an object: kind and name.
func Name(o Object) string {
	kind, _ := o["kind"].(string)
	meta, _ := o["metadata"].(Object)
	name, _ := meta["name"].(string)
	if kind == "" {
		kind = "object without kind"
	}
	if name == "" {
		name, _ = meta["generateName"].(string)
	}
	return strings.TrimSpace(kind + " " + name)
}

// Kinds that are converted, by group.
var kinds = map[string][]string{groupCore: {"NodePool", "NodeClaim"}, groupAWS: {"EC2NodeClass"}}

func (c Converter) convert(ctx context.Context, o Object, apiVersion string) (Object, []Loss, error) {
	root := node{fields: o}
	have, err := root.text("apiVersion")
	if err != nil {
		return nil, nil, err
	}
	kind, err := root.text("kind")
	if err != nil {
		return nil, nil, err
	}
	from, err := version(have, kind)
	if err != nil {
		return nil, nil, &FieldError{"apiVersion", err.Error()}
	}
	to, err := version(apiVersion, kind)
	if err != nil {
		return nil, nil, fmt.Errorf("desired API version: %w", err)
	}
	if from == to {
		return o, nil, nil
	}
	root = node{fields: clone(o).(Object)}
	root.fields["apiVersion"] = apiVersion
	if strings.HasSuffix(kind, "List") {
		return c.items(ctx, root, apiVersion)
	}
	losses, err := c.object(ctx, root, kind, to)
	return root.fields, losses, err
}

// version returns the version of an API version that this package converts the kind at.
func version(apiVersion, kind string) (string, error) {
	group, v, _ := strings.Cut(apiVersion, "/")
	known, ok := kinds[group]
	switch {
	case !ok:
		return "", fmt.Errorf("unknown group in %q: known are %s/v1, %s/v1beta1, %s/v1 and %s/v1beta1", apiVersion, groupCore, groupCore, groupAWS, groupAWS)
	case !slices.Contains(known, strings.TrimSuffix(kind, "List")):
		return "", fmt.Errorf("unknown kind %q in %s: known are %s", kind, group, strings.Join(known, ", "))
	case v != V1 && v != V1beta1:
		return "", fmt.Errorf("unknown version %q of %s: known are v1 and v1beta1", v, group)
	}
	return v, nil
}

func (c Converter) items(ctx context.Context, root node, apiVersion string) (Object, []Loss, error) {
	items, err := root.list("items")
	if err != nil {
		return nil, nil, err
	}
	var losses []Loss
	for i, item := range items {
		out, lost, err := c.Convert(ctx, item.fields, apiVersion)
		if err != nil {
			return nil, nil, fmt.Errorf("items[%d]: %w", i, err)
		}
		root.fields["items"].([]any)[i] = out
		for _, l := range lost {
			losses = append(losses, Loss{fmt.Sprintf("items[%d].%s", i, l.Path), l.Why})
		}
	}
	return root.fields, losses, nil
}

func (c Converter) object(ctx context.Context, root node, kind, to string) ([]Loss, error) {
	a, err := annotationsOf(root)
	if err != nil {
		return nil, err
	}
	var losses []Loss
	switch {
	case kind == "NodePool" && to == V1:
		err = nodePoolToV1(root, a)
	case kind == "NodePool":
		losses, err = nodePoolToBeta(root, a)
	case kind == "NodeClaim" && to == V1:
		err = c.nodeClaimToV1(ctx, root, a)
	case kind == "NodeClaim":
		losses, err = nodeClaimToBeta(root, a)
	case to == V1:
		err = nodeClassToV1(root, a)
	default:
		losses, err = nodeClassToBeta(root, a)
	}
	if err != nil {
		return nil, err
	}
	if to == V1beta1 {
		delete(a.m, StoredVersionMigratedAnnotation)
	}
	a.store()
	return losses, nil
}
