package convert

import (
	"errors"
	"maps"
	"slices"
	"strings"

	"millwright/api/conversion"
)

// rolePlaceholder stands where v1beta1 wants a role that v1alpha1 did not have.
const rolePlaceholder = "$KARPENTER_NODE_ROLE"

func sortedKeys(o conversion.Object) []string { return slices.Sorted(maps.Keys(o)) }

// nodeTemplate turns an AWSNodeTemplate, or a NodeTemplate of the draft, into an EC2NodeClass.
func (r *run) nodeTemplate(i *item) error {
	f := specOf(i.new)
	if v, ok := f.spec["launchTemplate"]; ok && v != nil {
		return errors.New(`cannot convert with "spec.launchTemplate"`)
	}
	if f.spec["amiFamily"] == nil {
		f.spec["amiFamily"] = "AL2"
	}
	for _, s := range []struct {
		from, to string
		terms    func(conversion.Object) ([]any, []string)
	}{
		{"subnetSelector", "subnetSelectorTerms", selectorTerms}, {"securityGroupSelector", "securityGroupSelectorTerms", selectorTerms},
		{"amiSelector", "amiSelectorTerms", imageTerms},
	} {
		r.selector(i, f, s.from, s.to, s.terms)
	}
	if profile, _ := f.spec["instanceProfile"].(string); profile == "" && f.spec["role"] == nil {
		delete(f.spec, "instanceProfile")
		f.spec["role"] = rolePlaceholder
		r.note(i, "spec.role", "is required and was not there: replace %s by the role of the nodes", rolePlaceholder)
	}
	delete(i.new, "status")
	i.new["apiVersion"], i.new["kind"], i.new["spec"] = "karpenter.k8s.aws/v1beta1", "EC2NodeClass", f.spec
	return f.err
}

// selector turns a selector map into terms. The draft had lists of terms already, under the old name.
func (r *run) selector(i *item, f *fields, from, to string, terms func(conversion.Object) ([]any, []string)) {
	switch v := f.spec[from].(type) {
	case nil:
		delete(f.spec, from)
	case []any:
		delete(f.spec, from)
		for _, t := range v {
			if m, ok := t.(conversion.Object); ok && m["ssm"] != nil {
				m["ssmParameter"] = m["ssm"]
				delete(m, "ssm")
			}
		}
		f.spec[to] = v
	default:
		m := take[conversion.Object](f, from)
		made, dropped := terms(m)
		for _, name := range dropped {
			r.note(i, "spec."+from, "%s cannot be combined with ids and was dropped", name)
		}
		if len(made) > 0 {
			f.spec[to] = made
		}
	}
}

// commas splits a comma-separated value.
func commas(v any) []string {
	text, _ := v.(string)
	var out []string
	for _, s := range strings.Split(text, ",") {
		if s = strings.TrimSpace(s); s != "" {
			out = append(out, s)
		}
	}
	return out
}

// tagSets are the maps of tags that a selector stands for: one for each choice from its comma-separated values.
func tagSets(selector conversion.Object, special func(string) bool) []conversion.Object {
	sets := []conversion.Object{{}}
	for _, name := range sortedKeys(selector) {
		if special(name) {
			continue
		}
		var next []conversion.Object
		for _, set := range sets {
			for _, value := range commas(selector[name]) {
				more := maps.Clone(set)
				more[name] = value
				next = append(next, more)
			}
		}
		if len(next) > 0 {
			sets = next
		}
	}
	if len(sets) == 1 && len(sets[0]) == 0 {
		return nil
	}
	return sets
}

func isSpecial(name string) bool {
	return strings.HasPrefix(name, "aws-") || strings.HasPrefix(name, "aws::")
}

func ids(selector conversion.Object) []string {
	return slices.Concat(commas(selector["aws-ids"]), commas(selector["aws::ids"]))
}

// selectorTerms of subnets and security groups: one term for each id, else one for each set of tags.
func selectorTerms(selector conversion.Object) (terms []any, dropped []string) {
	sets := tagSets(selector, isSpecial)
	if list := ids(selector); len(list) > 0 {
		for _, id := range list {
			terms = append(terms, conversion.Object{"id": id})
		}
		if sets != nil {
			dropped = append(dropped, "tags")
		}
		return terms, dropped
	}
	for _, set := range sets {
		terms = append(terms, conversion.Object{"tags": set})
	}
	return terms, nil
}

// imageTerms: owners x names x sets of tags; an id stands alone.
func imageTerms(selector conversion.Object) (terms []any, dropped []string) {
	owners, names := commas(selector["aws::owners"]), slices.Concat(commas(selector["aws::name"]), commas(selector["aws::names"]))
	sets := tagSets(selector, isSpecial)
	if list := ids(selector); len(list) > 0 {
		for _, id := range list {
			terms = append(terms, conversion.Object{"id": id})
		}
		for name, there := range map[string]bool{"aws::owners": len(owners) > 0, "aws::name": len(names) > 0, "tags": sets != nil} {
			if there {
				dropped = append(dropped, name)
			}
		}
		slices.Sort(dropped)
		return terms, dropped
	}
	for _, owner := range orNone(owners) {
		for _, name := range orNone(names) {
			for _, set := range orEmpty(sets) {
				term := conversion.Object{}
				if owner != "" {
					term["owner"] = owner
				}
				if name != "" {
					term["name"] = name
				}
				if len(set) > 0 {
					term["tags"] = set
				}
				if len(term) > 0 {
					terms = append(terms, term)
				}
			}
		}
	}
	return terms, nil
}

func orNone(list []string) []string {
	if len(list) == 0 {
		return []string{""}
	}
	return list
}

func orEmpty(sets []conversion.Object) []conversion.Object {
	if len(sets) == 0 {
		return []conversion.Object{nil}
	}
	return sets
}
