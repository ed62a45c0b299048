package nodeclass

import (
	"slices"

	"millwright/api/drifthash"
	awsv1 "millwright/api/karpenteraws/v1"
)

// Hasher computes the drift hash of EC2NodeClasses. The zero value knows no CA bundle.
type Hasher struct {
	// CABundles are base64. The first is hashed; a class or NodeClaim whose hash holds another of them is
	// left as it is, since whoever ran the cluster before may have been configured in another way than we
	// are.
	CABundles []string
}

// NewHasher: configured is the bundle that was given by option, own the one this process trusts the API
// server by. Only what was configured counts; without it a hash that holds our own stands too.
func NewHasher(configured, own string) Hasher {
	if configured != "" || own == "" {
		return Hasher{CABundles: []string{configured}}
	}
	return Hasher{CABundles: []string{"", own}}
}

// Current is the hash nc should have, and its version: the one it has if that can be computed (v4 and v5, so
// that a takeover and a hand-back change nothing), else v5.
func (h Hasher) Current(nc *awsv1.EC2NodeClass) (hash, version string) {
	version = nc.Annotations[versionKey]
	if version != drifthash.NodeClassV4 {
		version = drifthash.NodeClassV5
	}
	all := h.Hashes(nc, version)
	if i := slices.Index(all, nc.Annotations[hashKey]); i >= 0 {
		return all[i], version
	}
	return all[0], version
}

// Same reports whether a hash of that version is nc's; known is false for versions that cannot be computed.
func (h Hasher) Same(nc *awsv1.EC2NodeClass, hash, version string) (same, known bool) {
	all := h.Hashes(nc, version)
	return slices.Contains(all, hash), len(all) > 0
}

// Hashes of nc by that version, each of which is in sync with it: one for each CA bundle, none if the version
// is unknown.
func (h Hasher) Hashes(nc *awsv1.EC2NodeClass, version string) []string {
	family := awsv1.AMIFamilyOf(nc)
	switch version {
	case drifthash.MW1:
		return []string{drifthash.NodeClassMW1(&nc.Spec, family)}
	case drifthash.NodeClassV4:
		return []string{drifthash.NodeClass(version, &nc.Spec, family, "")}
	case drifthash.NodeClassV5:
		bundles := h.CABundles
		if len(bundles) == 0 {
			bundles = []string{""}
		}
		var all []string
		for _, ca := range bundles {
			all = append(all, drifthash.NodeClass(version, &nc.Spec, family, ca))
		}
		return all
	}
	return nil
}
