package drifthash

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/json"
	"slices"
	"strconv"

	corev1 "k8s.io/api/core/v1"

	karpv1 "millwright/api/karpenter/v1"
	awsv1 "millwright/api/karpenteraws/v1"
)

// MW1 is the version of what Millwright stamped at first.
const MW1 = "mw1"

// NodePoolMW1 is the mw1 hash of the template.
func NodePoolMW1(t karpv1.NodeClaimTemplate) string {
	fields := struct {
		Labels, Annotations   map[string]string
		Taints, StartupTaints []string
		NodeClass             *karpv1.NodeClassReference
		GracePeriod, Expire   string
	}{
		t.Labels, t.Annotations, taintSet(t.Spec.Taints), taintSet(t.Spec.StartupTaints), t.Spec.NodeClassRef, "", "",
	}
	if g := t.Spec.TerminationGracePeriod; g != nil {
		fields.GracePeriod = g.Duration.String()
	}
	if e := t.Spec.ExpireAfter; e.Duration != nil {
		fields.Expire = e.Duration.String()
	}
	if len(fields.Labels) == 0 {
		fields.Labels = nil
	}
	if len(fields.Annotations) == 0 {
		fields.Annotations = nil
	}
	return sum(mustJSON(fields))
}

// taintSet is sorted and distinct; when a taint was added does not count.
func taintSet(taints []corev1.Taint) []string {
	var texts []string
	for _, t := range taints {
		texts = append(texts, t.Key+"="+t.Value+":"+string(t.Effect))
	}
	slices.Sort(texts)
	return slices.Compact(texts)
}

// hashed are the fields that count in the mw1 hash of an EC2NodeClass.
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

// NodeClassMW1 is the mw1 hash of an EC2NodeClass whose AMI family is resolved.
func NodeClassMW1(s *awsv1.EC2NodeClassSpec, family string) string {
	return sum(mustJSON(hashed{
		AMIFamily: family, UserData: value(s.UserData), Role: s.Role, InstanceProfile: value(s.InstanceProfile), Tags: s.Tags,
		Kubelet: kubeletForMW1(s.Kubelet), BlockDeviceMappings: mappingsForMW1(s.BlockDeviceMappings),
		InstanceStorePolicy: string(value(s.InstanceStorePolicy)), DetailedMonitoring: s.DetailedMonitoring,
		MetadataOptions: metadataForMW1(s.MetadataOptions), AssociatePublicIPAddress: s.AssociatePublicIPAddress, Context: value(s.Context),
	}))
}

func kubeletForMW1(k *awsv1.KubeletConfiguration) *awsv1.KubeletConfiguration {
	if k == nil || string(mustJSON(k)) == "{}" {
		return nil
	}
	k = k.DeepCopy()
	slices.Sort(k.ClusterDNS)
	k.ClusterDNS = slices.Compact(k.ClusterDNS)
	return k
}

func metadataForMW1(m *awsv1.MetadataOptions) *awsv1.MetadataOptions {
	if m == nil || *m == (awsv1.MetadataOptions{}) {
		return nil
	}
	return m
}

// mappingsForMW1 returns the distinct mappings as sorted JSON.
func mappingsForMW1(mappings []*awsv1.BlockDeviceMapping) []string {
	var texts []string
	for _, m := range mappings {
		if m != nil {
			texts = append(texts, string(mustJSON(m)))
		}
	}
	slices.Sort(texts)
	return slices.Compact(texts)
}

// sum is the decimal of the first 64 bits of the digest.
func sum(data []byte) string {
	digest := sha256.Sum256(data)
	return strconv.FormatUint(binary.BigEndian.Uint64(digest[:8]), 10)
}

// mustJSON panics on what cannot be: our own types always encode.
func mustJSON(v any) []byte {
	b, err := json.Marshal(v)
	if err != nil {
		panic("drifthash: " + err.Error())
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
