package nodeclass

import (
	"fmt"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"

	awsv1 "millwright/api/karpenteraws/v1"
)

// variant is an image of an alias: where SSM names it and which instance types it is for.
type variant struct {
	parameter    string
	requirements []corev1.NodeSelectorRequirement
}

// aliasVariants lists the parameters of an alias, for Kubernetes k (major.minor) (ec2 §3.3).
func aliasVariants(family, version, k string) []variant {
	switch family {
	case awsv1.AMIFamilyAL2:
		return al2Variants(version, k)
	case awsv1.AMIFamilyAL2023:
		return al2023Variants(version, k)
	case awsv1.AMIFamilyBottlerocket:
		return bottlerocketVariants(version, k)
	case awsv1.AMIFamilyWindows2019:
		return windowsVariants("2019", "10.0.17763", k)
	case awsv1.AMIFamilyWindows2022:
		return windowsVariants("2022", "10.0.20348", k)
	case awsv1.AMIFamilyWindows2025:
		return windowsVariants("2025", "10.0.26100", k)
	}
	return nil
}

func al2Variants(version, k string) []variant {
	parameter := func(image, name string) string {
		n := "recommended"
		if version != latest {
			n = fmt.Sprintf("%s-%s-%s", name, k, version)
		}
		return fmt.Sprintf("/aws/service/eks/optimized-ami/%s/%s/%s/image_id", k, image, n)
	}
	gpu := parameter("amazon-linux-2-gpu", "amazon-eks-gpu-node")
	return []variant{
		{parameter("amazon-linux-2", "amazon-eks-node"), standard()},
		{parameter("amazon-linux-2-arm64", "amazon-eks-arm64-node"), standard()},
		{gpu, neuron()},
		{gpu, nvidia()},
	}
}

func al2023Variants(version, k string) []variant {
	parameter := func(arch, kind string) string {
		n := "recommended"
		if version != latest {
			n = fmt.Sprintf("amazon-eks-node-al2023-%s-%s-%s-%s", arch, kind, k, version)
		}
		return fmt.Sprintf("/aws/service/eks/optimized-ami/%s/amazon-linux-2023/%s/%s/%s/image_id", k, arch, kind, n)
	}
	return []variant{
		{parameter("x86_64", "standard"), standard()},
		{parameter("arm64", "standard"), standard()},
		{parameter("x86_64", "nvidia"), nvidia()},
		{parameter("arm64", "nvidia"), nvidia()},
		{parameter("x86_64", "neuron"), neuron()},
	}
}

func bottlerocketVariants(version, k string) []variant {
	parameter := func(kind, arch string) string {
		return fmt.Sprintf("/aws/service/bottlerocket/aws-k8s-%s%s/%s/%s/image_id", k, kind, arch, strings.TrimPrefix(version, "v"))
	}
	return []variant{
		{parameter("", "x86_64"), standard()},
		{parameter("", "x86_64"), neuron()},
		{parameter("", "arm64"), standard()},
		{parameter("-nvidia", "x86_64"), nvidia()},
		{parameter("-nvidia", "arm64"), nvidia()},
	}
}

func windowsVariants(year, build, k string) []variant {
	return []variant{{
		parameter: fmt.Sprintf("/aws/service/ami-windows-latest/Windows_Server-%s-English-Core-EKS_Optimized-%s/image_id", year, k),
		requirements: []corev1.NodeSelectorRequirement{
			{Key: corev1.LabelOSStable, Operator: corev1.NodeSelectorOpIn, Values: []string{string(corev1.Windows)}},
			{Key: corev1.LabelWindowsBuild, Operator: corev1.NodeSelectorOpIn, Values: []string{build}},
		},
	}}
}

const latest = "latest"

func standard() []corev1.NodeSelectorRequirement {
	return []corev1.NodeSelectorRequirement{absent(awsv1.LabelInstanceAcceleratorCount), absent(awsv1.LabelInstanceGPUCount)}
}

func nvidia() []corev1.NodeSelectorRequirement {
	return []corev1.NodeSelectorRequirement{present(awsv1.LabelInstanceGPUCount)}
}

func neuron() []corev1.NodeSelectorRequirement {
	return []corev1.NodeSelectorRequirement{present(awsv1.LabelInstanceAcceleratorCount)}
}

func absent(key string) corev1.NodeSelectorRequirement {
	return corev1.NodeSelectorRequirement{Key: key, Operator: corev1.NodeSelectorOpDoesNotExist}
}

func present(key string) corev1.NodeSelectorRequirement {
	return corev1.NodeSelectorRequirement{Key: key, Operator: corev1.NodeSelectorOpExists}
}

// unsupported says why no images of the family exist for this Kubernetes; "" if they do.
func unsupported(family, k string) string {
	switch minor := minorOf(k); {
	case family == awsv1.AMIFamilyAL2 && minor >= 33:
		return "AL2 aliases are no longer supported on EKS 1.33+ (see https://docs.aws.amazon.com/eks/latest/userguide/eks-ami-deprecation-faqs.html)"
	case family == awsv1.AMIFamilyWindows2025 && minor < 35:
		return "Windows Server 2025 requires EKS version 1.35 or higher, current version: " + k
	}
	return ""
}

func minorOf(k string) int {
	_, minor, _ := strings.Cut(k, ".")
	n, _ := strconv.Atoi(strings.TrimSuffix(minor, "+"))
	return n
}
