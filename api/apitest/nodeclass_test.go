package apitest_test

import (
	"fmt"
	"slices"
	"strings"
)

// nodeClasses are cases of EC2NodeClass's plain fields (reference: api §1.4).
func nodeClasses() []verdict {
	tag := func(key string) string { return "tags: {'" + key + "': v}" }
	return slices.Concat([]verdict{
		accepts("the base", ""),
		accepts("an instance profile instead of a role", "{role: null, instanceProfile: p}"),
		refuses("role and instance profile", "instanceProfile: p", "must specify exactly one of ['role', 'instanceProfile']"),
		refuses("neither role nor instance profile", "role: null", "must specify exactly one of ['role', 'instanceProfile']"),
		refuses("an empty role", "role: ''", "role cannot be empty"),
		refuses("an empty instance profile", "{role: null, instanceProfile: ''}", "instanceProfile cannot be empty"),
		accepts("the plain fields", "{associatePublicIPAddress: true, detailedMonitoring: false, userData: x, context: c, ipPrefixCount: 0, instanceStorePolicy: RAID0}"),
		refuses("a negative ipPrefixCount", "ipPrefixCount: -1", "should be greater than or equal to 0"),
		refuses("an unknown instanceStorePolicy", "instanceStorePolicy: RAID1", `supported values: "RAID0"`),
		accepts("tags", "tags: {a: b, c: '', 'karpenter.sh/discovery': x, 'kubernetes.io/x': v}"),
		refuses("an empty tag key", tag(""), "empty tag keys aren't supported"),
		refuses("tag eks:eks-cluster-name", tag("eks:eks-cluster-name"), "tag contains a restricted tag matching eks:eks-cluster-name"),
		refuses("a cluster tag", tag("kubernetes.io/cluster/blue"), "tag contains a restricted tag matching kubernetes.io/cluster/"),
		refuses("a cluster tag without a slash", tag("kubernetes.io/clusters"), "tag contains a restricted tag matching kubernetes.io/cluster/"),
		refuses("tag karpenter.sh/nodepool", tag("karpenter.sh/nodepool"), "tag contains a restricted tag matching karpenter.sh/nodepool"),
		refuses("tag karpenter.sh/nodeclaim", tag("karpenter.sh/nodeclaim"), "tag contains a restricted tag matching karpenter.sh/nodeclaim"),
		refuses("tag karpenter.k8s.aws/ec2nodeclass", tag("karpenter.k8s.aws/ec2nodeclass"), "tag contains a restricted tag matching karpenter.k8s.aws/ec2nodeclass"),
		accepts("the tag of another restricted domain", tag("karpenter.sh/managed-by")),
		accepts("all metadata options", "metadataOptions: {httpEndpoint: disabled, httpProtocolIPv6: enabled, httpPutResponseHopLimit: 64, httpTokens: optional}"),
		accepts("hop limit 1", "metadataOptions: {httpPutResponseHopLimit: 1}"),
		refuses("hop limit 0", "metadataOptions: {httpPutResponseHopLimit: 0}", "should be greater than or equal to 1"),
		refuses("hop limit 65", "metadataOptions: {httpPutResponseHopLimit: 65}", "should be less than or equal to 64"),
		refuses("an unknown httpEndpoint", "metadataOptions: {httpEndpoint: 'on'}", `supported values: "enabled", "disabled"`),
		refuses("an unknown httpProtocolIPv6", "metadataOptions: {httpProtocolIPv6: 'on'}", `supported values: "enabled", "disabled"`),
		refuses("an unknown httpTokens", "metadataOptions: {httpTokens: never}", `supported values: "required", "optional"`),
		refuses("an unknown cpu option", "cpuOptions: {nestedVirtualization: 'on'}", `supported values: "enabled", "disabled"`),
		accepts("nested virtualization", "cpuOptions: {nestedVirtualization: enabled}"),
	}, families())
}

func families() []verdict {
	family := func(f string) string { return "{amiFamily: " + f + ", amiSelectorTerms: [{id: ami-1}]}" }
	var out []verdict
	for _, f := range []string{"AL2", "AL2023", "Bottlerocket", "Custom", "Windows2019", "Windows2022", "Windows2025"} {
		out = append(out, accepts("family "+f, family(f)))
	}
	for _, f := range []string{"Ubuntu", "al2", "Windows2016", "''"} {
		out = append(out, refuses("family "+f, family(f), `supported values: "AL2", "AL2023", "Bottlerocket", "Custom", "Windows2019", "Windows2022", "Windows2025"`))
	}
	for _, f := range []struct{ article, family string }{
		{"an", "AL2"}, {"an", "AL2023"}, {"a", "Bottlerocket"}, {"a", "Windows2019"}, {"a", "Windows2022"}, {"a", "Windows2025"},
	} {
		patch := func(family string) string {
			return "{amiFamily: " + family + ", amiSelectorTerms: [{alias: " + strings.ToLower(f.family) + "@latest}]}"
		}
		other := "AL2"
		if f.family == "AL2" {
			other = "AL2023"
		}
		out = append(out, accepts(f.family+" with its alias", patch(f.family)), accepts("Custom with an alias of "+f.family, patch("Custom")),
			refuses(other+" with an alias of "+f.family, patch(other),
				fmt.Sprintf("if set, amiFamily must be '%s' or 'Custom' when using %s %s alias", f.family, f.article, f.family)))
	}
	return append(out, refuses("no alias and no family", "amiSelectorTerms: [{id: ami-1}]", "must specify amiFamily if amiSelectorTerms does not contain an alias"))
}

func imageTerms() []verdict {
	term := func(fields string) string { return "{amiFamily: Custom, amiSelectorTerms: [{" + fields + "}]}" }
	many := func(n int) string {
		return "{amiFamily: Custom, amiSelectorTerms: [" + repeated(n, func(i int) string { return fmt.Sprintf("{id: ami-%d}", i) }) + "]}"
	}
	const (
		none   = "expected at least one, got none, ['tags', 'id', 'name', 'alias', 'ssmParameter']"
		id     = "'id' is mutually exclusive, cannot be set with a combination of other fields in amiSelectorTerms"
		alias  = "'alias' is mutually exclusive, cannot be set with a combination of other fields in amiSelectorTerms"
		form   = "'alias' is improperly formatted, must match the format 'family@version'"
		family = "family is not supported, must be one of the following: 'al2', 'al2023', 'bottlerocket', 'windows2019', 'windows2022', 'windows2025'"
	)
	return slices.Concat([]verdict{
		refuses("absent image terms", "amiSelectorTerms: null", "Required value"),
		refuses("no image terms", "amiSelectorTerms: []", "should have at least 1 items"),
		accepts("30 image terms", many(30)),
		refuses("31 image terms", many(31), "must have at most 30 items"),
		refuses("an empty image term", term(""), none),
		refuses("an owner alone", term("owner: self"), none),
		refuses("one of two image terms is empty", "{amiFamily: Custom, amiSelectorTerms: [{id: ami-1}, {}]}", none),
		accepts("an image by name", term("name: x*")),
		accepts("an image by name and owner", term("name: x*, owner: self")),
		accepts("an image by tags, name and owner", term("tags: {a: b}, name: x, owner: '123456789012'")),
		accepts("an image by parameter", term("ssmParameter: /a/b")),
		accepts("a parameter with tags", term("ssmParameter: /a/b, tags: {a: b}")),
		accepts("a parameter with an id", term("ssmParameter: /a/b, id: ami-1")),
		refuses("image id and tags", term("id: ami-1, tags: {a: b}"), id),
		refuses("image id and name", term("id: ami-1, name: x"), id),
		refuses("image id and owner", term("id: ami-1, owner: self"), id),
		refuses("image id and alias", term("id: ami-1, alias: al2@latest"), id),
		refuses("one of two image terms with id and name", "{amiFamily: Custom, amiSelectorTerms: [{id: ami-1}, {id: ami-2, name: x}]}", id),
		refuses("alias and id", term("id: ami-1, alias: al2@latest"), alias),
		refuses("alias and tags", term("tags: {a: b}, alias: al2@latest"), alias),
		refuses("alias and name", term("name: x, alias: al2@latest"), alias),
		refuses("alias and owner", term("owner: self, alias: al2@latest"), alias),
		refuses("an alias and another term", "{amiFamily: Custom, amiSelectorTerms: [{alias: al2@latest}, {id: ami-1}]}",
			"'alias' is mutually exclusive, cannot be set with a combination of other amiSelectorTerms"),
		accepts("an alias of 30", term("alias: al2023@"+strings.Repeat("v", 23))),
		refuses("an alias of 31", term("alias: al2023@"+strings.Repeat("v", 24)), "may not be more than 30 bytes"),
		accepts("an alias with two @, refused at runtime", term("alias: al2023@a@b")),
		accepts("an id is found anywhere", term("id: x-ami-1-y")),
		refuses("an image id of another kind", term("id: subnet-1"), "should match 'ami-[0-9a-z]+'"),
	},
		each("alias", term("alias: %s"), "", "al2@latest", "al2023@v20240703", "bottlerocket@v1.20.3", "bottlerocket@1.20.3", "windows2019@latest", "windows2022@latest", "windows2025@latest"),
		each("alias form", term("alias: '%s'"), form, "al2023", "al2023@", "@latest", "al-2023@latest"),
		each("alias family", term("alias: %s"), family, "ubuntu@latest", "AL2023@latest", "windows2016@latest", "custom@latest"),
		each("windows alias", term("alias: %s@v1"), "windows families may only specify version 'latest'", "windows2019", "windows2022", "windows2025"),
		tagCases("amiSelectorTerms", "amiFamily: Custom, "),
	)
}

// tagCases are those of any selector's tags.
func tagCases(list, more string) []verdict {
	tags := func(text string) string { return "{" + more + list + ": [{tags: {" + text + "}}]}" }
	many := func(n int) string { return tags(repeated(n, func(i int) string { return fmt.Sprintf("k%d: v", i) })) }
	const empty = "empty tag keys or values aren't supported"
	return []verdict{
		accepts(list+" with 20 tags", many(20)),
		refuses(list+" with 21 tags", many(21), "must have at most 20 items"),
		accepts(list+" with any value", tags("a: '*'")),
		refuses(list+" with an empty key", tags("'': v"), empty),
		refuses(list+" with an empty value", tags("a: ''"), empty),
		refuses(list+" with an unknown field", "{"+more+list+": [{unknown: x}]}", `unknown field "spec.`+list+`[0].unknown"`),
	}
}

func selectorTerms() []verdict {
	of := func(list string) (func(string) string, func(int, string) string) {
		return func(terms string) string { return list + ": [" + terms + "]" }, func(n int, id string) string {
			return list + ": [" + repeated(n, func(i int) string { return fmt.Sprintf("{id: %s-%d}", id, i) }) + "]"
		}
	}
	subnets, subnetIDs := of("subnetSelectorTerms")
	groups, groupIDs := of("securityGroupSelectorTerms")
	reservations, reservationIDs := of("capacityReservationSelectorTerms")
	const (
		subnetNone  = "expected at least one, got none, ['tags', 'id']"
		subnetID    = "'id' is mutually exclusive, cannot be set with a combination of other fields in a subnet selector term"
		groupNone   = "expected at least one, got none, ['tags', 'id', 'name']"
		groupID     = "'id' is mutually exclusive, cannot be set with a combination of other fields in a security group selector term"
		groupName   = "'name' is mutually exclusive, cannot be set with a combination of other fields in a security group selector term"
		reserveNone = "expected at least one, got none, ['tags', 'id', 'instanceMatchCriteria']"
		reserveID   = "'id' is mutually exclusive, cannot be set along with other fields in a capacity reservation selector term"
	)
	return slices.Concat([]verdict{
		refuses("absent subnet terms", "subnetSelectorTerms: null", "Required value"),
		refuses("no subnet terms", subnets(""), "subnetSelectorTerms cannot be empty"),
		accepts("30 subnet terms", subnetIDs(30, "subnet")),
		refuses("31 subnet terms", subnetIDs(31, "subnet"), "must have at most 30 items"),
		refuses("an empty subnet term", subnets("{}"), subnetNone),
		refuses("one empty subnet term", subnets("{id: subnet-1}, {}"), subnetNone),
		refuses("subnet id and tags", subnets("{id: subnet-1, tags: {a: b}}"), subnetID),
		accepts("subnet id and tags beside a sound term", subnets("{id: subnet-1, tags: {a: b}}, {id: subnet-2}")),
		refuses("a subnet id of another kind", subnets("{id: sg-1}"), "should match 'subnet-[0-9a-z]+'"),

		refuses("absent group terms", "securityGroupSelectorTerms: null", "Required value"),
		refuses("no group terms", groups(""), "securityGroupSelectorTerms cannot be empty"),
		accepts("30 group terms", groupIDs(30, "sg")),
		refuses("31 group terms", groupIDs(31, "sg"), "must have at most 30 items"),
		refuses("an empty group term", groups("{}"), groupNone),
		accepts("a group by name", groups("{name: x}")),
		refuses("group id and tags", groups("{id: sg-1, tags: {a: b}}"), groupID),
		refuses("group id and name", groups("{id: sg-1, name: x}"), groupID),
		refuses("group name and id", groups("{id: sg-1, name: x}"), groupName),
		refuses("group name and tags", groups("{name: x, tags: {a: b}}"), groupName),
		accepts("group id and tags beside a sound term", groups("{id: sg-1, tags: {a: b}}, {id: sg-2}")),
		refuses("a group id of another kind", groups("{id: subnet-1}"), "should match 'sg-[0-9a-z]+'"),

		refuses("no reservation terms, since all of none are at fault", reservations(""), reserveID),
		accepts("30 reservation terms", reservationIDs(30, "cr")),
		refuses("31 reservation terms", reservationIDs(31, "cr"), "must have at most 30 items"),
		refuses("an empty reservation term", reservations("{}"), reserveNone),
		refuses("an owner alone of a reservation", reservations("{ownerID: '123456789012'}"), reserveNone),
		accepts("reservations by criteria", reservations("{instanceMatchCriteria: open}, {instanceMatchCriteria: targeted}")),
		accepts("reservations by tags and owner", reservations("{tags: {a: b}, ownerID: '123456789012'}")),
		refuses("reservation id and tags", reservations("{id: cr-1, tags: {a: b}}"), reserveID),
		refuses("reservation id and owner", reservations("{id: cr-1, ownerID: '123456789012'}"), reserveID),
		refuses("reservation id and criteria", reservations("{id: cr-1, instanceMatchCriteria: open}"), reserveID),
		accepts("reservation id and tags beside a sound term", reservations("{id: cr-1, tags: {a: b}}, {id: cr-2}")),
		refuses("a reservation id inside a text", reservations("{id: x-cr-1}"), "should match '^cr-[0-9a-z]+$'"),
		refuses("an owner of 11 digits", reservations("{tags: {a: b}, ownerID: '12345678901'}"), "should match '^[0-9]{12}$'"),
		refuses("an owner of 13 digits", reservations("{tags: {a: b}, ownerID: '1234567890123'}"), "should match '^[0-9]{12}$'"),
		refuses("unknown criteria", reservations("{instanceMatchCriteria: any}"), `supported values: "open", "targeted"`),

		accepts("a placement group by name", "placementGroupSelector: {name: x}"),
		accepts("a placement group by id", "placementGroupSelector: {id: pg-1}"),
		refuses("a placement group by nothing", "placementGroupSelector: {}", "expected at least one, got none, ['name', 'id']"),
		refuses("a placement group by both", "placementGroupSelector: {name: x, id: pg-1}", "'name' and 'id' are mutually exclusive"),
		refuses("an empty name of a placement group", "placementGroupSelector: {name: ''}", "should be at least 1 chars long"),
		refuses("a placement group id inside a text", "placementGroupSelector: {id: x-pg-1}", "should match '^pg-[0-9a-z]+$'"),
	}, tagCases("subnetSelectorTerms", ""), tagCases("securityGroupSelectorTerms", ""), tagCases("capacityReservationSelectorTerms", ""))
}
