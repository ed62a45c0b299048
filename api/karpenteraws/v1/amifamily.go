package v1

import "strings"

// aliasFamilies maps the family of an alias to the AMI family.
var aliasFamilies = map[string]string{
	"al2": AMIFamilyAL2, "al2023": AMIFamilyAL2023, "bottlerocket": AMIFamilyBottlerocket,
	"windows2019": AMIFamilyWindows2019, "windows2022": AMIFamilyWindows2022, "windows2025": AMIFamilyWindows2025,
}

// ParseAMIAlias splits "family@version" and resolves the family; ok is false if the form or the family is
// wrong.
func ParseAMIAlias(alias string) (family, version string, ok bool) {
	name, version, found := strings.Cut(alias, "@")
	family = aliasFamilies[strings.ToLower(name)]
	return family, version, found && family != "" && version != "" && !strings.Contains(version, "@")
}

// AMIAlias returns the alias among the terms of a NodeClass, or "".
func AMIAlias(nc *EC2NodeClass) string {
	for _, t := range nc.Spec.AMISelectorTerms {
		if t.Alias != "" {
			return t.Alias
		}
	}
	return ""
}

// AMIFamilyOf resolves a NodeClass's AMI family: spec.amiFamily, else the alias's (userdata §7). AL2 if
// neither says.
func AMIFamilyOf(nc *EC2NodeClass) string {
	if f := nc.Spec.AMIFamily; f != nil && *f != "" {
		return *f
	}
	if family, _, ok := ParseAMIAlias(AMIAlias(nc)); ok {
		return family
	}
	return AMIFamilyAL2
}
