package conversion

// Annotations that carry what v1 has no field for (reference: api §5).
const (
	// KubeletAnnotation holds the kubelet block of a v1beta1 NodePool or NodeClaim as JSON.
	KubeletAnnotation = "compatibility.karpenter.sh/v1beta1-kubelet-conversion"
	// NodeClassReferenceAnnotation holds the v1beta1 nodeClassRef as JSON.
	NodeClassReferenceAnnotation = "compatibility.karpenter.sh/v1beta1-nodeclass-reference"
	// AliasVersionAnnotation on an EC2NodeClass holds the version of its alias, or the whole alias beside
	// amiFamily Custom.
	AliasVersionAnnotation = "compatibility.karpenter.k8s.aws/v1-alias-version"
	// UbuntuAnnotation lists what of a v1 EC2NodeClass was put there for a v1beta1 one of the family Ubuntu.
	UbuntuAnnotation = "compatibility.karpenter.k8s.aws/v1beta1-ubuntu"
	// ConsolidateAfterAnnotation remembers consolidateAfter Never beside WhenUnderutilized, which becomes 0s
	// in v1.
	ConsolidateAfterAnnotation = "compatibility.millwright.sh/v1beta1-consolidate-after"
	// StoredVersionMigratedAnnotation marks objects that were rewritten at v1.
	StoredVersionMigratedAnnotation = "karpenter.sh/stored-version-migrated"
)

// Items of UbuntuAnnotation, joined by commas.
const (
	ubuntuAMIFamily    = "amiFamily"
	ubuntuBlockDevices = "blockDeviceMappings"
	ubuntuIncompatible = "incompatible"
	ubuntuPlaceholder  = "ami-placeholder"
)

const (
	groupCore = "karpenter.sh"
	groupAWS  = "karpenter.k8s.aws"

	// V1 and V1beta1 are the versions.
	V1      = "v1"
	V1beta1 = "v1beta1"

	never     = "Never"
	whenEmpty = "WhenEmpty"
	underBeta = "WhenUnderutilized"
	underV1   = "WhenEmptyOrUnderutilized"

	nodePoolLabel = "karpenter.sh/nodepool"
	defaultKind   = "EC2NodeClass"
)

// CompatibilityAnnotations are what is left of v1beta1 on objects of v1.
func CompatibilityAnnotations() []string {
	return []string{KubeletAnnotation, NodeClassReferenceAnnotation, AliasVersionAnnotation, UbuntuAnnotation, ConsolidateAfterAnnotation}
}
