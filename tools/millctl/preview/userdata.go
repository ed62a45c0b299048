package preview

import (
	"encoding/json"
	"fmt"
	"math"
	"net/netip"
	"os"
	"slices"

	corev1 "k8s.io/api/core/v1"

	karpv1 "millwright/api/karpenter/v1"
	"millwright/planner/requirement"
	"millwright/services/lifecycle/launch"
)

// UserData is the input of Render.
type UserData struct {
	Objects Objects
	Cluster launch.Cluster
	// InstanceType and the file of the catalogue that knows it; both may be empty.
	InstanceType, Catalog string
}

// Render returns the user data, decoded.
func (u UserData) Render() ([]byte, error) {
	nc, err := u.Objects.NodeClass()
	if err != nil {
		return nil, err
	}
	claim, err := u.Objects.NodeClaim()
	if err != nil {
		return nil, err
	}
	if _, err := netip.ParseAddr(u.Cluster.DNS); u.Cluster.DNS != "" && err != nil {
		return nil, fmt.Errorf("--cluster-dns %s: is no IP address", u.Cluster.DNS)
	}
	types, err := u.types()
	if err != nil {
		return nil, err
	}
	p := launch.Preview{NodeClass: nc, Claim: claim, Cluster: u.Cluster}
	if p.CapacityType, err = capacityType(claim, types); err != nil {
		return nil, err
	}
	if u.InstanceType != "" {
		if p.MaxPods, err = types[0].pods(); err != nil {
			return nil, err
		}
	}
	return p.UserData()
}

// types of the catalogue: the one asked for, or all if none is.
func (u UserData) types() ([]instanceType, error) {
	if u.Catalog == "" {
		if u.InstanceType != "" {
			return nil, fmt.Errorf("--instance-type needs --catalog: the number of pods comes from there")
		}
		return nil, nil
	}
	data, err := os.ReadFile(u.Catalog)
	if err != nil {
		return nil, fmt.Errorf("read catalogue: %w", err)
	}
	var file struct{ InstanceTypes []instanceType }
	if err := json.Unmarshal(data, &file); err != nil {
		return nil, fmt.Errorf("read catalogue %s: %w", u.Catalog, err)
	}
	if u.InstanceType == "" {
		return file.InstanceTypes, nil
	}
	i := slices.IndexFunc(file.InstanceTypes, func(t instanceType) bool { return t.Name == u.InstanceType })
	if i < 0 {
		return nil, fmt.Errorf("catalogue %s has no instance type %q", u.Catalog, u.InstanceType)
	}
	return file.InstanceTypes[i : i+1], nil
}

// instanceType is what is read of a catalogue, as catalog writes it or plan reads it.
type instanceType struct {
	Name      string
	Capacity  corev1.ResourceList
	Offerings []struct {
		Zone, CapacityType string
		Available          *bool
	}
}

func (t instanceType) pods() (*int32, error) {
	q, ok := t.Capacity[corev1.ResourcePods]
	if n := q.Value(); ok && n >= 0 && n <= math.MaxInt32 {
		pods := int32(n)
		return &pods, nil
	}
	return nil, fmt.Errorf("instance type %s: the catalogue does not say how many pods it holds", t.Name)
}

// capacityType is the one that the claim's requirements leave. Where several are left, reserved goes before
// spot, if the catalogue has such an offering now, in a zone the claim allows; otherwise it is on-demand.
func capacityType(claim *karpv1.NodeClaim, types []instanceType) (string, error) {
	reqs, err := requirement.FromClaim(claim.Spec.Requirements)
	if err != nil {
		return "", fmt.Errorf("nodeclaim %s: %w", claim.Name, err)
	}
	wanted := reqs.Get(karpv1.CapacityTypeLabelKey)
	var left []string
	for _, kind := range []string{karpv1.CapacityTypeReserved, karpv1.CapacityTypeSpot, karpv1.CapacityTypeOnDemand} {
		if wanted.Has(kind) {
			left = append(left, kind)
		}
	}
	switch len(left) {
	case 0:
		return "", fmt.Errorf("nodeclaim %s: its requirements leave no capacity type", claim.Name)
	case 1:
		return left[0], nil
	}
	for _, kind := range left {
		if kind == karpv1.CapacityTypeOnDemand || offers(types, kind, reqs) {
			return kind, nil
		}
	}
	return left[len(left)-1], nil
}

// offers: an instance type the claim allows can be had as this capacity type.
func offers(types []instanceType, kind string, reqs requirement.Set) bool {
	return slices.ContainsFunc(types, func(t instanceType) bool {
		if !reqs.Get(corev1.LabelInstanceTypeStable).Has(t.Name) {
			return false
		}
		for _, o := range t.Offerings {
			available := o.Available == nil || *o.Available
			if available && o.CapacityType == kind && reqs.Get(corev1.LabelTopologyZone).Has(o.Zone) {
				return true
			}
		}
		return false
	})
}
