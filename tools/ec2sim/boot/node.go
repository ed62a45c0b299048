package boot

import (
	"bytes"
	"encoding/base64"
	"errors"
	"fmt"
	"maps"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"millwright/tools/ec2sim/sim/instance"
)

// Managed is the annotation that tells KWOK to act as a Node's kubelet.
const (
	ManagedKey   = "kwok.x-k8s.io/node"
	ManagedValue = "fake"
)

// Cluster is the one that instances may join.
type Cluster struct {
	Name     string
	Endpoint string
	CA       []byte // PEM; empty: any
	Version  string // of the kubelet
}

// admit refuses a bootstrap that would not reach this cluster.
func (c *Cluster) admit(b *Bootstrap, imageFamily string) error {
	switch {
	case imageFamily != "" && imageFamily != b.Family && !(b.Family == Windows && strings.HasPrefix(imageFamily, Windows)):
		return fmt.Errorf("the image is of family %s but the user data is for %s", imageFamily, b.Family)
	case b.ClusterName != c.Name:
		return fmt.Errorf("the user data names the cluster %q, not %q", b.ClusterName, c.Name)
	case strings.TrimSuffix(b.Endpoint, "/") != strings.TrimSuffix(c.Endpoint, "/"):
		return fmt.Errorf("the user data names the endpoint %s, not %s", b.Endpoint, c.Endpoint)
	}
	if len(c.CA) == 0 || b.CA == "" {
		return nil
	}
	ca, err := base64.StdEncoding.DecodeString(b.CA)
	if err != nil {
		return fmt.Errorf("decode the cluster's CA: %w", err)
	}
	if !bytes.Equal(bytes.TrimSpace(ca), bytes.TrimSpace(c.CA)) {
		return errors.New("the user data holds another cluster's CA")
	}
	return nil
}

// NewNode builds the Node that a machine's kubelet would register, without extended resources: device
// plugins come later.
func NewNode(m *instance.Machine, b *Bootstrap, c *Cluster, overheadMillionths int64) (*corev1.Node, error) {
	if err := b.Kubelet.check(); err != nil {
		return nil, err
	}
	total := capacity(m, b, overheadMillionths)
	free, err := allocatable(m, b, total)
	if err != nil {
		return nil, err
	}
	return &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: m.PrivateDNS, Labels: labels(m, b)},
		Spec:       corev1.NodeSpec{ProviderID: providerID(m), Taints: b.Kubelet.Taints},
		Status: corev1.NodeStatus{
			Capacity: total, Allocatable: free, Conditions: startConditions(),
			Addresses: []corev1.NodeAddress{{Type: corev1.NodeInternalIP, Address: m.PrivateIP},
				{Type: corev1.NodeInternalDNS, Address: m.PrivateDNS}, {Type: corev1.NodeHostName, Address: m.PrivateDNS}},
			NodeInfo: nodeInfo(m, b, c.Version),
		},
	}, nil
}

func labels(m *instance.Machine, b *Bootstrap) map[string]string {
	out := map[string]string{
		corev1.LabelHostname: m.PrivateDNS, corev1.LabelArchStable: m.Type.Arch(), corev1.LabelOSStable: b.os(),
		"beta.kubernetes.io/arch": m.Type.Arch(), "beta.kubernetes.io/os": b.os(),
		corev1.LabelInstanceTypeStable: m.Type.Name, corev1.LabelInstanceType: m.Type.Name,
		corev1.LabelTopologyZone: m.Zone, corev1.LabelFailureDomainBetaZone: m.Zone,
		corev1.LabelTopologyRegion: m.Region, corev1.LabelFailureDomainBetaRegion: m.Region,
		"topology.k8s.aws/zone-id": m.ZoneID, "k8s.io/cloud-provider-aws": "simulated",
	}
	if build := windowsBuilds[m.ImageFamily]; build != "" {
		out[corev1.LabelWindowsBuild] = build
	}
	maps.Copy(out, b.Kubelet.Labels)
	return out
}

// windowsBuilds by image family.
var windowsBuilds = map[string]string{"Windows2019": "10.0.17763", "Windows2022": "10.0.20348", "Windows2025": "10.0.26100"}

func (b *Bootstrap) os() string {
	if b.Family == Windows {
		return "windows"
	}
	return "linux"
}

// startConditions are those of a kubelet that has just started: not ready until its runtime and network are.
func startConditions() []corev1.NodeCondition {
	now := metav1.Now()
	condition := func(kind corev1.NodeConditionType, status corev1.ConditionStatus, reason, message string) corev1.NodeCondition {
		return corev1.NodeCondition{Type: kind, Status: status, Reason: reason, Message: message,
			LastHeartbeatTime: now, LastTransitionTime: now}
	}
	return []corev1.NodeCondition{
		condition(corev1.NodeMemoryPressure, corev1.ConditionFalse, "KubeletHasSufficientMemory", "kubelet has sufficient memory available"),
		condition(corev1.NodeDiskPressure, corev1.ConditionFalse, "KubeletHasNoDiskPressure", "kubelet has no disk pressure"),
		condition(corev1.NodePIDPressure, corev1.ConditionFalse, "KubeletHasSufficientPID", "kubelet has sufficient PID available"),
		condition(corev1.NodeReady, corev1.ConditionFalse, "KubeletNotReady", "container runtime network not ready"),
	}
}

func nodeInfo(m *instance.Machine, b *Bootstrap, version string) corev1.NodeSystemInfo {
	uuid := "ec2" + strings.TrimPrefix(m.ID, "i-")
	images := map[string]string{AL2: "Amazon Linux 2", AL2023: "Amazon Linux 2023", Bottlerocket: "Bottlerocket OS", Windows: "Windows Server Datacenter"}
	kernel := "6.12.63-simulated"
	if build := windowsBuilds[m.ImageFamily]; build != "" {
		kernel = build + ".0-simulated"
	}
	return corev1.NodeSystemInfo{
		Architecture: m.Type.Arch(), OperatingSystem: b.os(), OSImage: images[b.Family], KernelVersion: kernel,
		KubeletVersion: "v" + version + ".0-eks-simulated", ContainerRuntimeVersion: "containerd://2.1.5",
		MachineID: uuid, SystemUUID: uuid, BootID: uuid,
	}
}

func providerID(m *instance.Machine) string { return "aws:///" + m.Zone + "/" + m.ID }
