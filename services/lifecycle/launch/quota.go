package launch

import (
	"cmp"
	"strings"

	karpv1 "millwright/api/karpenter/v1"
)

// otherQuotasMax is how many types of a request make room for types of other quotas.
const otherQuotasMax = 6

// quotaOf is the group of families whose vCPUs EC2 limits together for on-demand instances: the standard ones
// (A, C, D, H, I, M, R, T, Z), or the group that the letters of a family's name stand for.
func quotaOf(instanceType string) string {
	family, _, _ := strings.Cut(instanceType, ".")
	letters := strings.IndexFunc(family, func(r rune) bool { return r < 'a' || r > 'z' })
	if letters < 0 {
		return family
	}
	switch name := family[:letters]; name {
	case "a", "c", "d", "h", "i", "im", "is", "m", "r", "t", "z":
		return "standard"
	case "g", "gr", "vt":
		return "g-vt"
	default:
		return name
	}
}

// cheapest returns as many of the candidates, which are sorted by price, as one request may name. If all of
// these count against one quota of vCPUs the last few make room for the cheapest of other quotas, unless they
// cost more than twice as much as the dearest: where that quota is used up a request for the cheapest alone
// launches nothing, and nor do the next ones, 60 types each. On-demand, EC2 still launches the cheapest that
// can be had; spot capacity is not chosen by price alone, and stays as it is.
func cheapest(candidates []Candidate) []Candidate {
	kept, rest := candidates[:min(len(candidates), typesMax)], candidates[min(len(candidates), typesMax):]
	quota := ""
	for _, c := range kept {
		own := quotaOf(c.Type.Name)
		if quota = cmp.Or(quota, own); own != quota || len(c.ofType(karpv1.CapacityTypeOnDemand)) < len(c.Offerings) {
			return kept
		}
	}
	var others []Candidate
	for _, c := range rest {
		if len(others) < otherQuotasMax && quotaOf(c.Type.Name) != quota && c.Offerings[0].Price <= 2*kept[len(kept)-1].Offerings[0].Price {
			others = append(others, c)
		}
	}
	return append(kept[:len(kept)-len(others):len(kept)-len(others)], others...)
}
