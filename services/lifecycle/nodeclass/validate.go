package nodeclass

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	karpv1 "millwright/api/karpenter/v1"
	awsv1 "millwright/api/karpenteraws/v1"
	"millwright/api/reading"
	"millwright/services/lifecycle/launch/userdata"
)

// Fields a step depends on.
const (
	fieldImages       = "spec.amiSelectorTerms"
	fieldFamily       = "spec.amiFamily"
	fieldSubnets      = "spec.subnetSelectorTerms"
	fieldGroups       = "spec.securityGroupSelectorTerms"
	fieldRole         = "spec.role"
	fieldReservations = "spec.capacityReservationSelectorTerms"
	fieldTags         = "spec.tags"
	fieldText         = "spec.userData"
	fieldDevices      = "spec.blockDeviceMappings"
	fieldKubelet      = "spec.kubelet"
)

// Fault is what is wrong with a field. Most are refused by the API server already; not all, and not by old
// CRDs.
type Fault struct {
	// Field is a path: spec.amiSelectorTerms[0].alias.
	Field   string
	Message string
	// Reason of the condition.
	Reason string
}

func (f Fault) String() string { return f.Field + ": " + f.Message }

const reasonInvalid = "ValidationFailed"

// faultsOf joins the faults of a field and what is below it; "" if there are none.
func faultsOf(faults []Fault, field string) string {
	var texts []string
	for _, f := range faults {
		if f.Field == field || strings.HasPrefix(f.Field, field+"[") || strings.HasPrefix(f.Field, field+".") {
			texts = append(texts, f.String())
		}
	}
	return strings.Join(texts, "; ")
}

// Validate looks at the spec alone (api §1.4), in the order of its fields.
func Validate(nc *awsv1.EC2NodeClass) []Fault {
	var f faults
	f.images(nc)
	f.subnets(nc.Spec.SubnetSelectorTerms)
	f.groups(nc.Spec.SecurityGroupSelectorTerms)
	f.reservations(nc.Spec.CapacityReservationSelectorTerms)
	f.role(nc)
	f.devices(nc.Spec.BlockDeviceMappings)
	f.kubelet(nc.Spec.Kubelet)
	f.amounts(nc.Spec.Kubelet)
	f.thresholds(nc)
	f.text(nc)
	f.tags(nc.Spec.Tags)
	f.interfaces(nc.Spec)
	return f
}

type faults []Fault

func (f *faults) addFault(field, format string, args ...any) {
	*f = append(*f, Fault{Field: field, Message: fmt.Sprintf(format, args...), Reason: reasonInvalid})
}

var (
	families = []string{
		awsv1.AMIFamilyAL2, awsv1.AMIFamilyAL2023, awsv1.AMIFamilyBottlerocket, awsv1.AMIFamilyCustom,
		awsv1.AMIFamilyWindows2019, awsv1.AMIFamilyWindows2022, awsv1.AMIFamilyWindows2025,
	}
	aliasForm = regexp.MustCompile(`^[a-zA-Z0-9]+@[^@]+$`)
)

func (f *faults) images(nc *awsv1.EC2NodeClass) {
	terms := nc.Spec.AMISelectorTerms
	if len(terms) == 0 {
		f.addFault(fieldImages, "amiSelectorTerms cannot be empty")
	}
	for i, t := range terms {
		f.imageTerm(fmt.Sprintf("%s[%d]", fieldImages, i), t, len(terms))
	}
	f.family(nc)
}

// imageTerm: an ssmParameter excludes nothing (api §1.4).
func (f *faults) imageTerm(at string, t awsv1.AMISelectorTerm, terms int) {
	others := len(t.Tags) > 0 || t.Name != "" || t.Owner != ""
	switch {
	case t.Alias == "" && t.ID == "" && t.Name == "" && t.SSMParameter == "" && len(t.Tags) == 0:
		f.addFault(at, "expected at least one, got none, ['tags', 'id', 'name', 'alias', 'ssmParameter']")
	case t.Alias != "" && (others || t.ID != ""):
		f.addFault(at, "'alias' is mutually exclusive, cannot be set with a combination of other fields in amiSelectorTerms")
	case t.ID != "" && others:
		f.addFault(at, "'id' is mutually exclusive, cannot be set with a combination of other fields in amiSelectorTerms")
	case t.Alias != "" && terms > 1:
		f.addFault(at, "'alias' is mutually exclusive, cannot be set with a combination of other amiSelectorTerms")
	}
	f.selectorTags(at, t.Tags)
	if t.Alias != "" {
		f.alias(at+".alias", t.Alias)
	}
}

func (f *faults) alias(at, alias string) {
	if !aliasForm.MatchString(alias) {
		f.addFault(at, "'alias' is improperly formatted, must match the format 'family@version', got %q", alias)
		return
	}
	family, version, ok := awsv1.ParseAMIAlias(alias)
	switch {
	case !ok:
		f.addFault(at, "family is not supported, must be one of the following: 'al2', 'al2023', 'bottlerocket', 'windows2019', 'windows2022', 'windows2025', got %q", alias)
	case userdata.IsWindows(family) && version != latest:
		f.addFault(at, "windows families may only specify version 'latest', got %q", alias)
	}
}

func (f *faults) family(nc *awsv1.EC2NodeClass) {
	given := value(nc.Spec.AMIFamily)
	alias, _, ok := awsv1.ParseAMIAlias(awsv1.AMIAlias(nc))
	switch {
	case given == "" && awsv1.AMIAlias(nc) == "":
		f.addFault(fieldFamily, "must specify amiFamily if amiSelectorTerms does not contain an alias")
	case given != "" && !slices.Contains(families, given):
		f.addFault(fieldFamily, "unknown family %q, must be one of %s", given, strings.Join(families, ", "))
	case given != "" && ok && given != alias && given != awsv1.AMIFamilyCustom:
		f.addFault(fieldFamily, "if set, amiFamily must be '%s' or 'Custom' when using an %s alias, got %q", alias, alias, given)
	}
}

func (f *faults) selectorTags(at string, tags map[string]string) {
	for _, k := range slices.Sorted(maps.Keys(tags)) {
		if k == "" || tags[k] == "" {
			f.addFault(at+".tags", "empty tag keys or values aren't supported")
		}
	}
}

// subnets are refused, like groups, only if every term combines what excludes each other: of the others an
// id counts, then a name (api §1.4).
func (f *faults) subnets(terms []awsv1.SubnetSelectorTerm) {
	if len(terms) == 0 {
		f.addFault(fieldSubnets, "subnetSelectorTerms cannot be empty")
	}
	mixed := func(t awsv1.SubnetSelectorTerm) bool { return t.ID != "" && len(t.Tags) > 0 }
	for i, t := range terms {
		at := fmt.Sprintf("%s[%d]", fieldSubnets, i)
		switch {
		case t.ID == "" && len(t.Tags) == 0:
			f.addFault(at, "expected at least one, got none, ['tags', 'id']")
		case all(terms, mixed):
			f.addFault(at, "'id' is mutually exclusive, cannot be set with a combination of other fields in a subnet selector term")
		}
		f.selectorTags(at, t.Tags)
	}
}

// reservations may combine an id with other fields: then the id counts (api §1.4).
func (f *faults) reservations(terms []awsv1.CapacityReservationSelectorTerm) {
	for i, t := range terms {
		at := fmt.Sprintf("%s[%d]", fieldReservations, i)
		if t.ID == "" && len(t.Tags) == 0 && t.InstanceMatchCriteria == "" {
			f.addFault(at, "expected at least one, got none, ['tags', 'id', 'instanceMatchCriteria']")
		}
		f.selectorTags(at, t.Tags)
	}
}

func (f *faults) groups(terms []awsv1.SecurityGroupSelectorTerm) {
	if len(terms) == 0 {
		f.addFault(fieldGroups, "securityGroupSelectorTerms cannot be empty")
	}
	mixedID := func(t awsv1.SecurityGroupSelectorTerm) bool { return t.ID != "" && (t.Name != "" || len(t.Tags) > 0) }
	mixedName := func(t awsv1.SecurityGroupSelectorTerm) bool { return t.Name != "" && (t.ID != "" || len(t.Tags) > 0) }
	for i, t := range terms {
		at := fmt.Sprintf("%s[%d]", fieldGroups, i)
		switch {
		case t.ID == "" && t.Name == "" && len(t.Tags) == 0:
			f.addFault(at, "expected at least one, got none, ['tags', 'id', 'name']")
		case all(terms, mixedID):
			f.addFault(at, "'id' is mutually exclusive, cannot be set with a combination of other fields in a security group selector term")
		case all(terms, mixedName):
			f.addFault(at, "'name' is mutually exclusive, cannot be set with a combination of other fields in a security group selector term")
		}
		f.selectorTags(at, t.Tags)
	}
}

func all[T any](list []T, is func(T) bool) bool {
	return !slices.ContainsFunc(list, func(x T) bool { return !is(x) })
}

func (f *faults) role(nc *awsv1.EC2NodeClass) {
	hasProfile := value(nc.Spec.InstanceProfile) != ""
	if (roleName(nc.Spec.Role) != "") == hasProfile {
		f.addFault(fieldRole, "must specify exactly one of ['role', 'instanceProfile']")
	}
}

func (f *faults) devices(mappings []*awsv1.BlockDeviceMapping) {
	roots := 0
	for i, m := range mappings {
		at := fmt.Sprintf("%s[%d]", fieldDevices, i)
		if m == nil || m.EBS == nil {
			continue
		}
		if m.RootVolume {
			roots++
		}
		if m.EBS.SnapshotID == nil && m.EBS.VolumeSize == nil {
			f.addFault(at+".ebs", "snapshotID or volumeSize must be defined")
		}
		// The CRD lets a unit without a number in, which reads as 0.
		if m.EBS.VolumeSize != nil && m.EBS.VolumeSize.Sign() <= 0 {
			f.addFault(at+".ebs.volumeSize", "must be more than 0, got %s", m.EBS.VolumeSize.String())
		}
	}
	if roots > 1 {
		f.addFault(fieldDevices, "must have only one blockDeviceMappings with rootVolume")
	}
}

func (f *faults) kubelet(k *awsv1.KubeletConfiguration) {
	if k == nil {
		return
	}
	if high, low := k.ImageGCHighThresholdPercent, k.ImageGCLowThresholdPercent; high != nil && low != nil && *high <= *low {
		f.addFault(fieldKubelet, "imageGCHighThresholdPercent must be greater than imageGCLowThresholdPercent")
	}
	for _, signal := range slices.Sorted(maps.Keys(k.EvictionSoft)) {
		if _, ok := k.EvictionSoftGracePeriod[signal]; !ok {
			f.addFault(fieldKubelet+".evictionSoft", "evictionSoft OwnerKey does not have a matching evictionSoftGracePeriod")
		}
	}
	for _, signal := range slices.Sorted(maps.Keys(k.EvictionSoftGracePeriod)) {
		if _, ok := k.EvictionSoft[signal]; !ok {
			f.addFault(fieldKubelet+".evictionSoftGracePeriod", "evictionSoftGracePeriod OwnerKey does not have a matching evictionSoft")
		}
	}
}

// amounts finds values that neither we nor the kubelet can read: the CRD lets some in, as Karpenter's does.
func (f *faults) amounts(k *awsv1.KubeletConfiguration) {
	if k == nil {
		return
	}
	for _, m := range []struct {
		field   string
		amounts map[string]string
		read    func(string) error
	}{
		{"systemReserved", k.SystemReserved, readsReservation}, {"kubeReserved", k.KubeReserved, readsReservation},
		{"evictionHard", k.EvictionHard, readsThreshold}, {"evictionSoft", k.EvictionSoft, readsThreshold},
	} {
		for _, key := range slices.Sorted(maps.Keys(m.amounts)) {
			text := m.amounts[key]
			if err := m.read(text); err != nil {
				f.addFault(fmt.Sprintf("%s.%s[%s]", fieldKubelet, m.field, key), "%q: %v", text, err)
			}
		}
	}
}

func readsReservation(text string) error {
	_, err := reading.Reservation(text)
	return err
}

func readsThreshold(text string) error {
	_, _, err := reading.Threshold(text)
	return err
}

// thresholds finds those of nothing, and grace periods, over which kubelet ends at its start, so that no node
// would ever register: the CRD lets them in. The family Custom gets no settings of kubelet from us.
func (f *faults) thresholds(nc *awsv1.EC2NodeClass) {
	k := nc.Spec.Kubelet
	if k == nil || awsv1.AMIFamilyOf(nc) == awsv1.AMIFamilyCustom {
		return
	}
	for _, m := range []struct {
		field      string
		thresholds map[string]string
	}{{"evictionHard", k.EvictionHard}, {"evictionSoft", k.EvictionSoft}} {
		for _, signal := range slices.Sorted(maps.Keys(m.thresholds)) {
			if q, err := reading.Quantity(m.thresholds[signal]); err == nil && q.IsZero() {
				f.addFault(fmt.Sprintf("%s.%s[%s]", fieldKubelet, m.field, signal), "kubelet takes no threshold but a positive one or a percentage, got %q", m.thresholds[signal])
			}
		}
	}
	for _, signal := range slices.Sorted(maps.Keys(k.EvictionSoftGracePeriod)) {
		if d := k.EvictionSoftGracePeriod[signal].Duration; d < 0 {
			f.addFault(fmt.Sprintf("%s.evictionSoftGracePeriod[%s]", fieldKubelet, signal), "must not be negative, got %s", d)
		}
	}
}

// text renders the user's text with nothing else in it: what cannot be rendered now could not be launched.
func (f *faults) text(nc *awsv1.EC2NodeClass) {
	_, err := userdata.Render(userdata.Input{
		Family: awsv1.AMIFamilyOf(nc), Cluster: "cluster", Endpoint: "https://endpoint", ClusterCIDR: "10.0.0.0/16", UserData: value(nc.Spec.UserData),
		RAID0: value(nc.Spec.InstanceStorePolicy) == awsv1.InstanceStorePolicyRAID0,
	})
	switch {
	case errors.Is(err, userdata.ErrTooLarge):
		*f = append(*f, Fault{Field: fieldText, Message: err.Error(), Reason: "UserDataSizeLimitExceeded"})
	case errors.Is(err, userdata.ErrInvalid):
		f.addFault(fieldText, "%s", err.Error())
	}
}

// restrictedTags belong to us; the first is a prefix.
var restrictedTags = []string{
	"kubernetes.io/cluster", awsv1.TagNodePool, awsv1.TagEKSClusterName, awsv1.TagNodeClass, awsv1.TagNodeClaim, awsv1.TagLaunch,
}

// What EC2 takes: tags of a resource, and characters of a key and a value. Ours are those of restrictedTags
// and the Node's name.
const (
	tagsMax     = 50
	tagKeyMax   = 128
	tagValueMax = 256
	tagName     = "Name"
)

func (f *faults) tags(tags map[string]string) {
	refuse := func(format string, args ...any) {
		*f = append(*f, Fault{Field: fieldTags, Message: fmt.Sprintf(format, args...), Reason: "TagValidationFailed"})
	}
	for _, k := range slices.Sorted(maps.Keys(tags)) {
		switch {
		case k == "":
			refuse("empty tag keys aren't supported")
		case strings.HasPrefix(strings.ToLower(k), "aws:"):
			refuse("tag %q begins with aws:, which is reserved by AWS", k)
		case utf8.RuneCountInString(k) > tagKeyMax:
			refuse("tag %.20q… has a key of more than %d characters, which is EC2's limit", k, tagKeyMax)
		case utf8.RuneCountInString(tags[k]) > tagValueMax:
			refuse("tag %q has a value of more than %d characters, which is EC2's limit", k, tagValueMax)
		}
		for i, r := range restrictedTags {
			if k == r || i == 0 && strings.HasPrefix(k, r) {
				refuse("tag %q contains a restricted tag matching %q", k, r)
			}
		}
	}
	ours := len(restrictedTags)
	if _, named := tags[tagName]; !named {
		ours++
	}
	if len(tags)+ours > tagsMax {
		refuse("%d tags and %d of Millwright's are more than the %d that a resource may have", len(tags), ours, tagsMax)
	}
}

// validate sets ValidationSucceeded (ec2 §3.5): faults of the spec come first, since they explain the rest.
func (p *pass) validate(ctx context.Context, faults []Fault) (time.Duration, error) {
	const kind = karpv1.ConditionTypeValidationSucceeded
	if len(faults) > 0 {
		var texts []string
		for _, f := range faults {
			texts = append(texts, f.String())
		}
		p.conditions.False(kind, faults[0].Reason, strings.Join(texts, "; "))
		return validateInterval, nil
	}
	if awsv1.AMIFamilyOf(p.nc) == awsv1.AMIFamilyAL2023 {
		if _, err := p.cfg.CIDR(ctx); err != nil {
			p.conditions.False(kind, "ClusterCIDRResolutionFailed", "Failed to detect the cluster CIDR")
			return retrySoon, fmt.Errorf("resolve cluster CIDR: %w", err)
		}
	}
	const waiting = "Awaiting AMI, Instance Profile, Security Group, and Subnet resolution"
	switch p.dependencies() {
	case metav1.ConditionFalse:
		p.conditions.False(kind, reasonWaiting, waiting)
	case metav1.ConditionUnknown:
		p.conditions.Unknown(kind, reasonWaiting, waiting)
	default:
		return p.authorize(ctx)
	}
	return validateInterval, nil
}

// dependencies is False if one of the four resolvers is, else Unknown if one is, else True.
func (p *pass) dependencies() metav1.ConditionStatus {
	status := metav1.ConditionTrue
	for _, t := range resolved {
		switch p.conditions.StatusOf(t) {
		case metav1.ConditionFalse:
			return metav1.ConditionFalse
		case metav1.ConditionUnknown:
			status = metav1.ConditionUnknown
		}
	}
	return status
}

// value of a pointer; the zero value for nil.
func value[T any](p *T) T {
	if p == nil {
		var zero T
		return zero
	}
	return *p
}
