package userdata

import (
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"

	corev1 "k8s.io/api/core/v1"

	awsv1 "millwright/api/karpenteraws/v1"
)

// SizeMax is EC2's limit on raw user data in bytes.
const SizeMax = 16384

// ErrTooLarge is wrapped by Render and Pack when the result exceeds SizeMax.
var ErrTooLarge = errors.New("user data is limited to 16384 bytes")

// ErrInvalid is wrapped by Render when the user's text cannot be understood or merged.
var ErrInvalid = errors.New("invalid userData")

// Input of Render.
type Input struct {
	// Family is the resolved AMI family; unknown ones behave as AL2.
	Family string
	// Cluster's name, endpoint and certificate authority (base64, may be empty).
	Cluster, Endpoint, CABundle string
	// ClusterCIDR of services; only AL2023 needs it.
	ClusterCIDR string
	// Labels of the node, as NodeLabels gives them. Taints as NodeTaints gives them.
	Labels map[string]string
	Taints []corev1.Taint
	// Kubelet with the defaults for maxPods and clusterDNS filled in.
	Kubelet awsv1.KubeletConfiguration
	// UserData is the user's own text.
	UserData string
	// RAID0 joins the instance-store volumes.
	RAID0 bool
	// BottlerocketBindsDirs: the image is older than 1.46.0 or of unknown version, so that the directories of
	// ephemeral storage have to be named.
	BottlerocketBindsDirs bool
}

// Render returns the user data as the instance reads it. It fails as Pack does.
func Render(in Input) ([]byte, error) {
	out, err := render(in)
	if err != nil {
		return nil, err
	}
	if _, err := Pack(in.Family, []byte(out)); err != nil {
		return nil, err
	}
	return []byte(out), nil
}

// Pack returns the bytes that EC2 is given, which wants them in base64: what Render returned, compressed if
// it is too large and the family's images decompress it. What is still too large wraps ErrTooLarge.
func Pack(family string, text []byte) ([]byte, error) {
	if len(text) <= SizeMax {
		return text, nil
	}
	if !decompresses(family) {
		return nil, fmt.Errorf("render user data of %d bytes, which AMI family %s reads uncompressed only: %w", len(text), family, ErrTooLarge)
	}
	var b bytes.Buffer
	w, _ := gzip.NewWriterLevel(&b, gzip.BestCompression)
	if _, err := w.Write(text); err != nil {
		return nil, fmt.Errorf("compress user data: %w", err)
	}
	if err := w.Close(); err != nil {
		return nil, fmt.Errorf("compress user data: %w", err)
	}
	if b.Len() > SizeMax {
		return nil, fmt.Errorf("render user data of %d bytes, %d compressed: %w", len(text), b.Len(), ErrTooLarge)
	}
	return b.Bytes(), nil
}

// decompresses: cloud-init and nodeadm take gzip. Bottlerocket's and Windows' agents do not, and of Custom
// images nothing is known.
func decompresses(family string) bool {
	switch family {
	case awsv1.AMIFamilyCustom, awsv1.AMIFamilyBottlerocket, awsv1.AMIFamilyWindows2019, awsv1.AMIFamilyWindows2022, awsv1.AMIFamilyWindows2025:
		return false
	}
	return true
}

func render(in Input) (string, error) {
	switch in.Family {
	case awsv1.AMIFamilyCustom:
		return in.UserData, nil
	case awsv1.AMIFamilyBottlerocket:
		return bottlerocket(in)
	case awsv1.AMIFamilyAL2023:
		return al2023(in)
	case awsv1.AMIFamilyWindows2019, awsv1.AMIFamilyWindows2022, awsv1.AMIFamilyWindows2025:
		return windows(in), nil
	}
	return al2(in)
}
