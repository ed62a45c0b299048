package userdata

import (
	"regexp"
	"strconv"
	"strings"

	awsv1 "millwright/api/karpenteraws/v1"
)

// aliasFamilies maps the family of an alias to the AMI family.
var aliasFamilies = map[string]string{
	"al2": awsv1.AMIFamilyAL2, "al2023": awsv1.AMIFamilyAL2023, "bottlerocket": awsv1.AMIFamilyBottlerocket,
	"windows2019": awsv1.AMIFamilyWindows2019, "windows2022": awsv1.AMIFamilyWindows2022, "windows2025": awsv1.AMIFamilyWindows2025,
}

// ParseAlias splits "family@version" and resolves the family; ok is false if the form or the family is wrong.
func ParseAlias(alias string) (family, version string, ok bool) {
	name, version, found := strings.Cut(alias, "@")
	family = aliasFamilies[strings.ToLower(name)]
	return family, version, found && family != "" && version != "" && !strings.Contains(version, "@")
}

// Alias returns the alias among the terms, or "".
func Alias(nc *awsv1.EC2NodeClass) string {
	for _, t := range nc.Spec.AMISelectorTerms {
		if t.Alias != "" {
			return t.Alias
		}
	}
	return ""
}

// Family resolves a NodeClass's AMI family: spec.amiFamily, else the alias's (userdata §7). AL2 if neither
// says.
func Family(nc *awsv1.EC2NodeClass) string {
	if f := nc.Spec.AMIFamily; f != nil && *f != "" {
		return *f
	}
	if family, _, ok := ParseAlias(Alias(nc)); ok {
		return family
	}
	return awsv1.AMIFamilyAL2
}

// IsWindows reports one of the Windows families.
func IsWindows(family string) bool { return strings.HasPrefix(family, "Windows") }

var bottlerocketVersion = regexp.MustCompile(`v?(\d+)\.(\d+)\.(\d+)`)

// BindsDirs reports whether instance storage of a Bottlerocket image must be bound by naming the directories:
// before 1.46.0, and when the version cannot be told. It comes from the alias, a name term, or the name of
// the image (userdata §4).
func BindsDirs(nc *awsv1.EC2NodeClass, imageName string) bool {
	if _, version, ok := ParseAlias(Alias(nc)); ok {
		return version != "latest" && olderThan146(version)
	}
	for _, t := range nc.Spec.AMISelectorTerms {
		if bottlerocketVersion.MatchString(t.Name) {
			return olderThan146(t.Name)
		}
	}
	return olderThan146(imageName)
}

func olderThan146(text string) bool {
	m := bottlerocketVersion.FindStringSubmatch(text)
	if m == nil {
		return true
	}
	major, _ := strconv.Atoi(m[1])
	minor, _ := strconv.Atoi(m[2])
	return major < 1 || major == 1 && minor < 46
}
