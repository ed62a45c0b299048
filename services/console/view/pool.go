package view

import (
	"fmt"
	"strings"

	"sigs.k8s.io/yaml"

	karpv1 "millwright/api/karpenter/v1"
	mwv1alpha1 "millwright/api/millwright/v1alpha1"
	"millwright/planner"
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

// manifestsMax bounds the manifests that a question begins with.
const manifestsMax = PlanInputMax / 4

// manifestsOf are the NodePools that a decision is about, or all if it names none, and the
// DisruptionPolicies.
func manifestsOf(s *planner.Snapshot, about map[string]bool) string {
	var list []Manifest
	for _, all := range []bool{false, true} {
		for _, p := range s.World.NodePools() {
			if all || about["pool/"+p.Name] {
				list = append(list, manifestOf(p))
			}
		}
		if len(list) > 0 {
			break
		}
	}
	for _, p := range s.World.DisruptionPolicies() {
		list = append(list, Manifest{APIVersion: mwv1alpha1.Group + "/" + mwv1alpha1.Version, Kind: "DisruptionPolicy", Metadata: Metadata{p.Name}, Spec: p.Spec})
	}
	var out strings.Builder
	for i := range list {
		b, err := yaml.Marshal(list[i])
		if err != nil || out.Len()+len(b) > manifestsMax {
			return ""
		}
		if i > 0 {
			out.WriteString("---\n")
		}
		out.Write(b)
	}
	return out.String()
}

func manifestOf(pool *karpv1.NodePool) Manifest {
	return Manifest{APIVersion: karpv1.Group + "/v1", Kind: "NodePool", Metadata: Metadata{pool.Name}, Spec: pool.Spec}
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
	m := manifestOf(pool)
	return &m, nil
}
