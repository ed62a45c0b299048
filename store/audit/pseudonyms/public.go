package pseudonyms

import (
	_ "embed"
	"regexp"
	"strings"
)

// publicText holds, one a line, the words of the texts that Millwright and Kubernetes write themselves, and
// the label keys that they define. TestWords collects them from the source; a word that is missing is
// replaced like a name, which does no harm.
//
//go:embed public.txt
var publicText string

// vocabulary of words that stay.
type vocabulary map[string]bool

func newVocabulary() vocabulary {
	v := vocabulary{}
	for w := range strings.FieldsSeq(publicText) {
		v[w] = true
	}
	return v
}

// plain are numbers, quantities, durations, percentages, times and the numbers of versions: they stay where
// their field is not a name's. Long numbers may be those of accounts.
var plain = regexp.MustCompile(`^(` + strings.Join([]string{
	`[-+]?\d{1,10}(\.\d{1,9})?(m|k|M|G|T|P|E|Ki|Mi|Gi|Ti|Pi|Ei|%|n|u)?`,
	`\d{13,15}`, // bytes of memory
	`\d{1,6}/\d{1,6}`,
	`v\d{1,3}((alpha|beta)\d{1,2})?`,
	`([0-9]+(\.[0-9]+)?(ns|us|µs|ms|s|m|h))+`,
	`\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?(Z|[-+]\d\d:\d\d)`,
	`\d\d:\d\d(:\d\d)?`, // of a day, in a text
	`mw1`,
}, "|") + `)$`)

// moment is a time; it stays wherever it is.
var moment = regexp.MustCompile(`^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?(Z|[-+]\d\d:\d\d)$`)

// schedule is a cron expression; it stays.
var schedule = regexp.MustCompile(`^(?i)(TZ=\S+ )?(@[a-z]+|([-0-9*/,?LW#]|sun|mon|tue|wed|thu|fri|sat|jan|feb|mar|apr|may|jun|jul|aug|sep|oct|nov|dec|\s)+)$`)

// integer is a number that label values may be compared by.
var integer = regexp.MustCompile(`^\d{1,10}$`)

// Domains of label keys and of resources that are no user's.
var publicDomains = map[string]bool{
	"kubernetes.io": true, "beta.kubernetes.io": true, "node.kubernetes.io": true, "topology.kubernetes.io": true, "k8s.io": true,
	"karpenter.sh": true, "karpenter.k8s.aws": true, "topology.k8s.aws": true, "millwright.sh": true, "failure-domain.beta.kubernetes.io": true,
	"node-role.kubernetes.io": true, "node-restriction.kubernetes.io": true, "node.cloudprovider.kubernetes.io": true,
	"cluster-autoscaler.kubernetes.io": true, "app.kubernetes.io": true, "pod.kubernetes.io": true, "autoscaling.x-k8s.io": true,
	"readiness.k8s.io": true, "storage.kubernetes.io": true, "policy": true, "apps": true, "batch": true, "compatibility.karpenter.k8s.aws": true,
	"vpc.amazonaws.com": true, "aws.amazon.com": true, "nvidia.com": true, "amd.com": true, "habana.ai": true, "smarter-devices": true,
	"eks.amazonaws.com": true, "ebs.csi.aws.com": true, "topology.ebs.csi.aws.com": true, "attachable-volumes-aws-ebs": true,
}

// protectedDomains are those whose subdomains planners treat apart.
var protectedDomains = []string{".kubernetes.io", ".k8s.io", ".karpenter.sh", ".karpenter.k8s.aws"}

// namedValues are public label and annotation keys whose values are names all the same.
var namedValues = map[string]bool{
	"karpenter.sh/nodepool": true, "karpenter.sh/nodeclaim": true, "karpenter.k8s.aws/ec2nodeclass": true, "kubernetes.io/hostname": true,
	"karpenter.k8s.aws/capacity-reservation-id": true, "karpenter.k8s.aws/placement-group-id": true, "kubernetes.io/metadata.name": true,
	"karpenter.k8s.aws/instance-profile-name": true, "karpenter.sh/nodepool-hash": true, "karpenter.k8s.aws/ec2nodeclass-hash": true,
	"pod-template-hash": true, "controller-revision-hash": true,
}

// recordValues are keys whose values are a log id, other ids and numbers of records between slashes.
var recordValues = map[string]bool{"millwright.sh/record": true, "millwright.sh/launch": true}

// fixedWords begin ids of AWS; they stay, so that an id stays one of its kind.
var fixedWords = []string{"i", "ami", "subnet", "sg", "lt", "cr", "pg", "vol"}

// A class says what the text of a field is.
type class int

const (
	// nameField is replaced whatever it is; so is the text of a field that is not listed.
	nameField class = iota
	// keyField is the key of labels, taints and resources.
	keyField
	// publicField is from a closed set: what is not is replaced.
	publicField
	// textField is replaced word by word, but for those of the vocabulary.
	textField
	// aggregateField is a kind and a name, with a slash between.
	aggregateField
	// encodedField is JSON in base64.
	encodedField
	// droppedField is left out.
	droppedField
	// labelMap is a map by label key; amountMap one by resource.
	labelMap
	amountMap
	// countMap is a map from what is public.
	countMap
)

// classes of fields by name, whatever has them.
var classes = fields(map[class]string{
	keyField:       `key topologyKey topologyKeys matchLabelKeys mismatchLabelKeys label resourceName finalizers`,
	aggregateField: `aggregates`,
	encodedField:   `input options request`,
	droppedField:   `body signature`,
	textField:      `message cause refused failure because error detail blocked object console`,
	labelMap:       `labels matchLabels nodeSelector annotations tags`,
	amountMap:      `requests limits capacity allocatable overhead resources used usage`,
	countMap:       `eliminated progress sums paced`,
	publicField: `kind apiVersion group operator effect phase status type reason method class code constraint state mode service stop restartPolicy
		preemptionPolicy whenUnsatisfiable nodeAffinityPolicy nodeTaintsPolicy capacityType instanceType instanceTypes zone zoneID closest strategy
		maxSurge maxUnavailable minAvailable nodes schedule duration consolidateAfter consolidationPolicy expireAfter terminationGracePeriod
		preferencePolicy minValuesPolicy volumeBindingMode provisioner policyTypes unhealthyPodEvictionPolicy resourceVersion version hashVersion
		schedulerName priorityClassName amiFamily creationTimestamp deletionTimestamp whenScaled whenDeleted driver protocol accessModes volumeMode
		InstanceType AvailabilityZone Type DefaultTargetCapacityType AllocationStrategy ExcessCapacityTerminationPolicy ResourceType
		persistentVolumeReclaimPolicy reclaimPolicy podManagementPolicy alias tenancy architecture operatingSystem condition checks
		httpEndpoint httpTokens volumeType volumeSize rootVolume reservations interruptible instanceMatchCriteria time price priceAdjustment
		deviceName reasons timeZone rebalance provisioningStrategy owner for within availableFor horizon minNodeAge costPerEviction minPerEviction
		minPerHour destination rebalanceRecommendation preferences action apiGroup drifted ready doomed`,
})

func fields(m map[class]string) map[string]class {
	all := map[string]class{}
	for c, list := range m {
		for name := range strings.FieldsSeq(list) {
			all[name] = c
		}
	}
	return all
}

// fieldText holds the names of the fields of all that is recorded and observed, one a line; TestWords
// collects them too. What is named otherwise in an object is the key of a map.
//
//go:embed fields.txt
var fieldText string
