package view

import (
	"fmt"

	karpv1 "millwright/api/karpenter/v1"
)

// Manifest is an object as somebody would write it.
type Manifest struct {
	APIVersion string   `json:"apiVersion"`
	Kind       string   `json:"kind"`
	Metadata   Metadata `json:"metadata"`
	Spec       any      `json:"spec"`
}

// Metadata of a Manifest.
type Metadata struct {
	Name string `json:"name"`
}

// HasNodePool reports that the cluster has a NodePool, as far as is known.
func (v *View) HasNodePool(name string) bool {
	w, _, err := v.versions()
	return err == nil && w.NodePool(name) != nil
}

// NodePool is one of the cluster, as a manifest.
func (v *View) NodePool(name string) (*Manifest, error) {
	w, _, err := v.versions()
	if err != nil {
		return nil, err
	}
	pool := w.NodePool(name)
	if pool == nil {
		return nil, fmt.Errorf("%w: the cluster has no NodePool %s", ErrNotFound, name)
	}
	return &Manifest{APIVersion: karpv1.Group + "/v1", Kind: "NodePool", Metadata: Metadata{pool.Name}, Spec: pool.Spec}, nil
}
