package conversion

import (
	"context"
	"fmt"
)

// nodeClaimToV1 takes expireAfter, which a v1beta1 NodeClaim does not have, from its NodePool.
func (c Converter) nodeClaimToV1(ctx context.Context, root node, a *annotations) error {
	spec, err := root.required("spec")
	if err != nil {
		return err
	}
	if err := specToV1(spec, a); err != nil {
		return err
	}
	expireAfter, err := c.expireAfter(ctx, root)
	if err != nil {
		return err
	}
	spec.fields["expireAfter"] = expireAfter
	return nil
}

func (c Converter) expireAfter(ctx context.Context, root node) (string, error) {
	meta, err := root.required("metadata")
	if err != nil {
		return "", err
	}
	labels, _, err := meta.child("labels")
	if err != nil {
		return "", err
	}
	pool, err := labels.text(nodePoolLabel)
	if err != nil || pool == "" || c.Pool == nil {
		return never, err
	}
	expireAfter, found, err := c.Pool(ctx, pool)
	if err != nil {
		return "", &FieldError{"spec.expireAfter", fmt.Sprintf("read NodePool %s: %v", pool, err)}
	}
	if !found || expireAfter == "" {
		return never, nil
	}
	return expireAfter, nil
}

func nodeClaimToBeta(root node, a *annotations) ([]Loss, error) {
	spec, err := root.required("spec")
	if err != nil {
		return nil, err
	}
	losses := append(drop(spec, "expireAfter"), drop(spec, "terminationGracePeriod")...)
	status, ok, err := root.child("status")
	if err != nil {
		return nil, err
	}
	if ok {
		losses = append(losses, drop(status, "lastPodEventTime")...)
	}
	return losses, specToBeta(spec, a)
}
