package v1

import "k8s.io/apimachinery/pkg/runtime/schema"

// Group is the API group of EC2NodeClass.
const Group = "karpenter.k8s.aws"

// KindNodeClass is the kind that NodePools and NodeClaims refer to.
const KindNodeClass = "EC2NodeClass"

// SchemeGroupVersion is karpenter.k8s.aws/v1.
var SchemeGroupVersion = schema.GroupVersion{Group: Group, Version: "v1"}

// Labels of instances, set on NodeClaims and Nodes where single-valued.
const (
	LabelEC2NodeClass                     = Group + "/ec2nodeclass"
	LabelInstanceCategory                 = Group + "/instance-category"
	LabelInstanceFamily                   = Group + "/instance-family"
	LabelInstanceGeneration               = Group + "/instance-generation"
	LabelInstanceSize                     = Group + "/instance-size"
	LabelInstanceCPU                      = Group + "/instance-cpu"
	LabelInstanceCPUManufacturer          = Group + "/instance-cpu-manufacturer"
	LabelInstanceCPUSustainedClockMHz     = Group + "/instance-cpu-sustained-clock-speed-mhz"
	LabelInstanceMemory                   = Group + "/instance-memory"
	LabelInstanceEBSBandwidth             = Group + "/instance-ebs-bandwidth"
	LabelInstanceNetworkBandwidth         = Group + "/instance-network-bandwidth"
	LabelInstanceLocalNVME                = Group + "/instance-local-nvme"
	LabelInstanceHypervisor               = Group + "/instance-hypervisor"
	LabelInstanceEncryptionInTransit      = Group + "/instance-encryption-in-transit-supported"
	LabelInstanceGPUName                  = Group + "/instance-gpu-name"
	LabelInstanceGPUManufacturer          = Group + "/instance-gpu-manufacturer"
	LabelInstanceGPUCount                 = Group + "/instance-gpu-count"
	LabelInstanceGPUMemory                = Group + "/instance-gpu-memory"
	LabelInstanceAcceleratorName          = Group + "/instance-accelerator-name"
	LabelInstanceAcceleratorManufacturer  = Group + "/instance-accelerator-manufacturer"
	LabelInstanceAcceleratorCount         = Group + "/instance-accelerator-count"
	LabelInstanceCapabilityFlex           = Group + "/instance-capability-flex"
	LabelInstanceTenancy                  = Group + "/instance-tenancy"
	LabelCapacityReservationID            = Group + "/capacity-reservation-id"
	LabelCapacityReservationType          = Group + "/capacity-reservation-type"
	LabelCapacityReservationInterruptible = Group + "/capacity-reservation-interruptible"
	LabelPlacementGroupID                 = Group + "/placement-group-id"
	LabelPlacementGroupPartition          = Group + "/placement-group-partition"
	// LabelTopologyZoneID is the zone's id, the same in every account.
	LabelTopologyZoneID = "topology.k8s.aws/zone-id"
)

// Annotations.
const (
	NodeClassHashAnnotationKey        = Group + "/ec2nodeclass-hash"
	NodeClassHashVersionAnnotationKey = Group + "/ec2nodeclass-hash-version"
	InstanceProfileAnnotationKey      = Group + "/instance-profile-name"
	TaggedAnnotationKey               = Group + "/tagged"
	ClusterNameTaggedAnnotationKey    = "compatibility.karpenter.k8s.aws/cluster-name-tagged"
)

// TerminationFinalizer is held while NodeClaims use the NodeClass.
const TerminationFinalizer = Group + "/termination"

// EC2 tags.
const (
	TagNodeClaim      = "karpenter.sh/nodeclaim"
	TagNodePool       = "karpenter.sh/nodepool"
	TagNodeClass      = LabelEC2NodeClass
	TagEKSClusterName = "eks:eks-cluster-name"
	TagClusterPrefix  = "kubernetes.io/cluster/"
	TagName           = "Name"
	// TagLaunch on instances and fleets: "<log-id>/<claim UID>/<attempt>".
	TagLaunch = "millwright.sh/launch"
)

// Condition types of EC2NodeClass beside Ready and ValidationSucceeded.
const (
	ConditionTypeAMIsReady                 = "AMIsReady"
	ConditionTypeSubnetsReady              = "SubnetsReady"
	ConditionTypeSecurityGroupsReady       = "SecurityGroupsReady"
	ConditionTypeInstanceProfileReady      = "InstanceProfileReady"
	ConditionTypeCapacityReservationsReady = "CapacityReservationsReady"
	ConditionTypePlacementGroupReady       = "PlacementGroupReady"
)

// AMI families.
const (
	AMIFamilyAL2          = "AL2"
	AMIFamilyAL2023       = "AL2023"
	AMIFamilyBottlerocket = "Bottlerocket"
	AMIFamilyCustom       = "Custom"
	AMIFamilyWindows2019  = "Windows2019"
	AMIFamilyWindows2022  = "Windows2022"
	AMIFamilyWindows2025  = "Windows2025"
)
