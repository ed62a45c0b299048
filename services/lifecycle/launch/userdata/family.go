package userdata

import (
	"regexp"
	"strconv"
	"strings"

	awsv1 "millwright/api/karpenteraws/v1"
)

// IsWindows reports one of the Windows families.
func IsWindows(family string) bool { return strings.HasPrefix(family, "Windows") }

// bottlerocketVersion is a version in the name of an image, where three numbers without a v may be a date.
var bottlerocketVersion = regexp.MustCompile(`(?:^|[^a-zA-Z0-9])v(\d+)\.(\d+)\.(\d+)`)

// BindsDirs reports whether instance storage of a Bottlerocket image must be bound by naming the directories:
// before 1.46.0, and when the version cannot be told. It comes from the alias, a name term, or the name of
// the image (userdata §4).
func BindsDirs(nc *awsv1.EC2NodeClass, imageName string) bool {
	if _, version, ok := awsv1.ParseAMIAlias(awsv1.AMIAlias(nc)); ok {
		return version != "latest" && olderThan146("v"+strings.TrimPrefix(version, "v"))
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
