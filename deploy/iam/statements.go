package iam

// Statement of a policy, with placeholders: {partition}, {region}, {account}, {cluster}, {queue}, {role}, the
// node role, and of an archive in a bucket {bucket}, {prefix} and {key}, a KMS
// key's ARN, and {signingKey}, that of the key that signs the log.
type Statement struct {
	Sid string
	// Policy that it is part of; services with much to do have several, since IAM bounds the size of one.
	Policy string
	// Actions of AWS APIs, and the Resources they are allowed on.
	Actions, Resources []string
	Conditions         []Condition
	// Needs says which calls need it, and what for.
	Needs string
	// Without says what is missing for who leaves it out; "" if it cannot be left out.
	Without string
}

// Condition of a statement: the operator, the key, and the values of which one must match.
type Condition struct {
	Operator, Key string
	Values        []string
}

const (
	watcher   = "watcher"
	lifecycle = "lifecycle"
	profiles  = "profiles"
	archive   = "archive"
	archiver  = "archiver"
	signer    = "signer"
	owned     = "kubernetes.io/cluster/{cluster}"
)

func equal(key string, values ...string) Condition { return Condition{"StringEquals", key, values} }

func like(key string, values ...string) Condition { return Condition{"StringLike", key, values} }

// ofRequest: what is made carries the cluster's tags.
var ofRequest = []Condition{
	equal("aws:RequestTag/"+owned, "owned"),
	equal("aws:RequestTag/eks:eks-cluster-name", "{cluster}"),
	like("aws:RequestTag/karpenter.sh/nodepool", "*"),
}

// ofResource: what is changed carries the cluster's tags.
var ofResource = []Condition{
	equal("aws:ResourceTag/"+owned, "owned"),
	like("aws:ResourceTag/karpenter.sh/nodepool", "*"),
}

var inRegion = []Condition{equal("aws:RequestedRegion", "{region}")}

const ec2ARN = "arn:{partition}:ec2:{region}:{account}:"

// made are the kinds of resources that launches make.
var made = []string{
	ec2ARN + "fleet/*", ec2ARN + "instance/*", ec2ARN + "volume/*", ec2ARN + "network-interface/*", ec2ARN + "launch-template/*",
	ec2ARN + "spot-instances-request/*",
}

const (
	profileARN = "arn:{partition}:iam::{account}:instance-profile/*"
	// clusterProfileARN are the profiles below the path of the cluster. Others must not get its tags: what
	// has them may be changed and deleted.
	clusterProfileARN = "arn:{partition}:iam::{account}:instance-profile/karpenter/{region}/{cluster}/*"
)

// Statements by policy, in the order in which they are printed.
var Statements = []Statement{
	{
		Sid: "ReadOffers", Policy: watcher,
		Actions: []string{"ec2:DescribeCapacityReservations", "ec2:DescribeInstanceStatus", "ec2:DescribeInstanceTypeOfferings",
			"ec2:DescribeInstanceTypes", "ec2:DescribeInstances", "ec2:DescribeSpotPriceHistory", "ec2:DescribeSubnets"},
		Resources: []string{"*"}, Conditions: inRegion,
		Needs: "Instance types, zones, Outposts, spot prices, capacity reservations and the state of instances, polled. EC2 has no narrower resource for reading.",
	},
	{
		Sid: "ReadPrices", Policy: watcher, Actions: []string{"pricing:GetProducts"}, Resources: []string{"*"},
		Needs: "On-demand prices. The price API knows no resources, and answers from few regions.", Without: "built-in prices are used, which age",
	},
	{
		Sid: "ReadZonalShifts", Policy: watcher, Actions: []string{"arc-zonal-shift:GetManagedResource"}, Resources: []string{"*"},
		Conditions: []Condition{equal("arc-zonal-shift:ResourceIdentifier", "arn:{partition}:eks:{region}:{account}:cluster/{cluster}")},
		Needs:      "Zones that the cluster is shifted away from, with `settings.enableZonalShift`.", Without: "zonal shifts are not seen",
	},
	{
		Sid: "FindCluster", Policy: watcher, Actions: []string{"eks:DescribeCluster"},
		Resources: []string{"arn:{partition}:eks:{region}:{account}:cluster/{cluster}"},
		Needs:     "The cluster's ARN, by which zonal shifts are asked about.", Without: "zonal shifts are not seen",
	},
	{
		Sid: "ReadQueue", Policy: watcher,
		Actions:   []string{"sqs:DeleteMessage", "sqs:GetQueueUrl", "sqs:ReceiveMessage"},
		Resources: []string{"arn:{partition}:sqs:{region}:{account}:{queue}"},
		Needs:     "Interruptions, if `settings.interruptionQueue` names a queue. DeleteMessage covers batches.", Without: "no interruption queue can be read",
	},
	{
		Sid: "ReadNetworkAndInstances", Policy: lifecycle,
		Actions: []string{"ec2:DescribeCapacityReservations", "ec2:DescribeImages", "ec2:DescribeInstanceStatus", "ec2:DescribeInstances",
			"ec2:DescribeLaunchTemplates", "ec2:DescribePlacementGroups", "ec2:DescribeSecurityGroups", "ec2:DescribeSubnets"},
		Resources: []string{"*"}, Conditions: inRegion,
		Needs: "What the selectors of an EC2NodeClass select, launch templates that exist, and instances of the cluster.",
	},
	{
		Sid: "ReadConsole", Policy: lifecycle, Actions: []string{"ec2:GetConsoleOutput"},
		Resources: []string{ec2ARN + "instance/*"}, Conditions: ofResource,
		Needs: "The last failures on the console of an instance that did not become a Node, quoted in conditions and records.", Without: "consoles are not quoted",
	},
	{
		Sid: "ReadImageParameters", Policy: lifecycle, Actions: []string{"ssm:GetParameter"},
		Resources: []string{"arn:{partition}:ssm:{region}::parameter/aws/service/*"},
		Needs:     "Images behind aliases. For `ssmParameter` terms that name parameters of your own, add these.",
	},
	{
		Sid: "ReadCluster", Policy: lifecycle, Actions: []string{"eks:DescribeCluster"},
		Resources: []string{"arn:{partition}:eks:{region}:{account}:cluster/{cluster}"},
		Needs:     "Endpoint, certificate and service addresses that nodes boot with.", Without: "`settings.clusterEndpoint` is needed, and AL2023 images cannot boot",
	},
	{
		Sid: "LaunchFrom", Policy: lifecycle, Actions: []string{"ec2:CreateFleet", "ec2:RunInstances"},
		Resources: []string{"arn:{partition}:ec2:{region}::image/*", "arn:{partition}:ec2:{region}::snapshot/*",
			"arn:{partition}:ec2:{region}:*:security-group/*", "arn:{partition}:ec2:{region}:*:subnet/*", "arn:{partition}:ec2:{region}:*:capacity-reservation/*",
			"arn:{partition}:ec2:{region}:*:placement-group/*"},
		Needs: "What a launch names; reservations, subnets, groups and placement groups may be shared by another account. RunInstances is called as a dry run, and by fleets.",
	},
	{
		Sid: "LaunchFromTemplates", Policy: lifecycle, Actions: []string{"ec2:CreateFleet", "ec2:RunInstances"},
		Resources: []string{ec2ARN + "launch-template/*"}, Conditions: ofResource,
		Needs: "Launch templates of the cluster.",
	},
	{
		Sid: "Launch", Policy: lifecycle, Actions: []string{"ec2:CreateFleet", "ec2:CreateLaunchTemplate", "ec2:RunInstances"},
		Resources: made, Conditions: ofRequest,
		Needs: "What a launch makes, if the request itself tags it as the cluster's.",
	},
	{
		Sid: "TagWhatIsLaunched", Policy: lifecycle, Actions: []string{"ec2:CreateTags"}, Resources: made,
		Conditions: append([]Condition{equal("ec2:CreateAction", "CreateFleet", "CreateLaunchTemplate", "RunInstances")}, ofRequest...),
		Needs:      "The tags in these requests.",
	},
	{
		Sid: "TagInstances", Policy: lifecycle, Actions: []string{"ec2:CreateTags"}, Resources: []string{ec2ARN + "instance/*"},
		Conditions: append([]Condition{
			{"StringEqualsIfExists", "aws:RequestTag/eks:eks-cluster-name", []string{"{cluster}"}},
			{"ForAllValues:StringEquals", "aws:TagKeys", []string{"Name", "eks:eks-cluster-name", "karpenter.sh/nodeclaim"}},
		}, ofResource...),
		Needs: "Tags that are known once an instance has become a Node.",
	},
	{
		Sid: "EndInstancesAndTemplates", Policy: lifecycle, Actions: []string{"ec2:DeleteLaunchTemplate", "ec2:TerminateInstances"},
		Resources: []string{ec2ARN + "instance/*", ec2ARN + "launch-template/*"}, Conditions: ofResource,
		Needs: "The end of instances and launch templates of the cluster.",
	},
	{
		Sid: "PassNodeRole", Policy: profiles, Actions: []string{"iam:PassRole"},
		Resources:  []string{"arn:{partition}:iam::{account}:role/{role}"},
		Conditions: []Condition{equal("iam:PassedToService", "ec2.amazonaws.com", "ec2.amazonaws.com.cn")},
		Needs:      "Instances with the node role, and instance profiles with it.",
	},
	{
		Sid: "MakeProfiles", Policy: profiles, Actions: []string{"iam:CreateInstanceProfile", "iam:TagInstanceProfile"},
		Resources: []string{clusterProfileARN},
		Conditions: []Condition{
			equal("aws:RequestTag/"+owned, "owned"), equal("aws:RequestTag/eks:eks-cluster-name", "{cluster}"),
			equal("aws:RequestTag/topology.kubernetes.io/region", "{region}"), like("aws:RequestTag/karpenter.k8s.aws/ec2nodeclass", "*"),
		},
		Needs: "An instance profile for each EC2NodeClass that names a role.", Without: "each EC2NodeClass must name an instance profile",
	},
	{
		Sid: "ChangeProfiles", Policy: profiles,
		Actions:   []string{"iam:AddRoleToInstanceProfile", "iam:DeleteInstanceProfile", "iam:RemoveRoleFromInstanceProfile"},
		Resources: []string{profileARN},
		Conditions: []Condition{
			equal("aws:ResourceTag/"+owned, "owned"), equal("aws:ResourceTag/topology.kubernetes.io/region", "{region}"),
			like("aws:ResourceTag/karpenter.k8s.aws/ec2nodeclass", "*"),
		},
		Needs: "The same profiles.", Without: "each EC2NodeClass must name an instance profile",
	},
	{
		Sid: "ReadProfiles", Policy: profiles, Actions: []string{"iam:GetInstanceProfile", "iam:ListInstanceProfiles"},
		Resources: []string{profileARN},
		Needs:     "Whether a profile exists, and which are left over.",
	},
}

const (
	objectsARN = "arn:{partition}:s3:::{bucket}/{prefix}*"
	keyARN     = "{key}"
)

// ArchiveStatements are those of services whose archive is in a bucket. Nothing there may delete.
var ArchiveStatements = []Statement{
	{
		Sid: "ListArchive", Policy: archive, Actions: []string{"s3:ListBucket"}, Resources: []string{"arn:{partition}:s3:::{bucket}"},
		Conditions: []Condition{{"StringLikeIfExists", "s3:prefix", []string{"{prefix}*"}}},
		Needs:      "The segments of the archive, if `archive.location` names a bucket; without it S3 does not tell what does not exist from what may not be read.",
	},
	{
		Sid: "ReadArchive", Policy: archive, Actions: []string{"s3:GetObject"}, Resources: []string{objectsARN},
		Needs: "Reading archived records, and verifying what was written.",
	},
	{
		Sid: "DecryptArchive", Policy: archive, Actions: []string{"kms:Decrypt"}, Resources: []string{keyARN},
		Needs: "The same, if the location names a KMS key.",
	},
	{
		Sid: "WriteArchive", Policy: archiver, Actions: []string{"s3:AbortMultipartUpload", "s3:PutObject", "s3:PutObjectRetention"}, Resources: []string{objectsARN},
		Needs: "Writing segments, with their retention if the location names one. Nothing is overwritten or deleted; who prunes needs `s3:DeleteObject` too.",
	},
	{
		Sid: "EncryptArchive", Policy: archiver, Actions: []string{"kms:GenerateDataKey"}, Resources: []string{keyARN},
		Needs: "The same, if the location names a KMS key.",
	},
}

// SigningStatements are those of who signs the log with a key in KMS.
var SigningStatements = []Statement{
	{
		Sid: "SignLog", Policy: signer, Actions: []string{"kms:GetPublicKey", "kms:Sign"}, Resources: []string{"{signingKey}"},
		Conditions: []Condition{{"StringEqualsIfExists", "kms:SigningAlgorithm", []string{"ED25519_SHA_512"}}},
		Needs:      "Signing the head of the log at each checkpoint, if `--log-signing-kms-key-id` names a key.", Without: "checkpoints are not signed",
	},
}
