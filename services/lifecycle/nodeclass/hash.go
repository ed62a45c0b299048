package nodeclass

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/json"
	"slices"
	"strconv"

	awsv1 "millwright/api/karpenteraws/v1"
	"millwright/services/lifecycle/launch/userdata"
)

// HashVersion names the algorithm of Hash. Hashes of different versions are never compared; a change of version
// re-stamps NodeClaims without drift (api §4).
const HashVersion = "mw1"

// hashed are the fields whose change makes nodes drift (api §4). Selectors are not among them: what they resolve
// to is compared with the instance.
type hashed struct {
	AMIFamily                string                      `json:"amiFamily"`
	UserData                 string                      `json:"userData,omitempty"`
	Role                     string                      `json:"role,omitempty"`
	InstanceProfile          string                      `json:"instanceProfile,omitempty"`
	Tags                     map[string]string           `json:"tags,omitempty"`
	Kubelet                  *awsv1.KubeletConfiguration `json:"kubelet,omitempty"`
	BlockDeviceMappings      []string                    `json:"blockDeviceMappings,omitempty"`
	InstanceStorePolicy      string                      `json:"instanceStorePolicy,omitempty"`
	DetailedMonitoring       *bool                       `json:"detailedMonitoring,omitempty"`
	MetadataOptions          *awsv1.MetadataOptions      `json:"metadataOptions,omitempty"`
	AssociatePublicIPAddress *bool                       `json:"associatePublicIPAddress,omitempty"`
	Context                  string                      `json:"context,omitempty"`
}

// Hash returns the decimal 64-bit hash of the static fields. Lists are sets; absent and empty are equal; quantities and
// durations count by value; a switch that is set to its zero value differs from one that is not set.
func Hash(nc *awsv1.EC2NodeClass) string {
	s := nc.Spec
	h := hashed{
		AMIFamily: userdata.Family(nc), UserData: value(s.UserData), Role: s.Role, InstanceProfile: value(s.InstanceProfile), Tags: s.Tags,
		Kubelet: kubeletForHash(s.Kubelet), BlockDeviceMappings: mappingsForHash(s.BlockDeviceMappings),
		InstanceStorePolicy: string(value(s.InstanceStorePolicy)), DetailedMonitoring: s.DetailedMonitoring,
		MetadataOptions: metadataForHash(s.MetadataOptions), AssociatePublicIPAddress: s.AssociatePublicIPAddress, Context: value(s.Context),
	}
	sum := sha256.Sum256(mustJSON(h))
	return strconv.FormatUint(binary.BigEndian.Uint64(sum[:8]), 10)
}

func kubeletForHash(k *awsv1.KubeletConfiguration) *awsv1.KubeletConfiguration {
	if k == nil || string(mustJSON(k)) == "{}" {
		return nil
	}
	k = k.DeepCopy()
	slices.Sort(k.ClusterDNS)
	k.ClusterDNS = slices.Compact(k.ClusterDNS)
	return k
}

func metadataForHash(m *awsv1.MetadataOptions) *awsv1.MetadataOptions {
	if m == nil || *m == (awsv1.MetadataOptions{}) {
		return nil
	}
	return m
}

// mappingsForHash returns the distinct mappings as sorted JSON.
func mappingsForHash(mappings []*awsv1.BlockDeviceMapping) []string {
	var texts []string
	for _, m := range mappings {
		if m != nil {
			texts = append(texts, string(mustJSON(m)))
		}
	}
	slices.Sort(texts)
	return slices.Compact(texts)
}

// mustJSON panics on what cannot be: our own types always encode.
func mustJSON(v any) []byte {
	b, err := json.Marshal(v)
	if err != nil {
		panic(err)
	}
	return b
}

func value[T any](p *T) T {
	if p == nil {
		var zero T
		return zero
	}
	return *p
}
