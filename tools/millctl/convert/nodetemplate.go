package convert

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"millwright/api/conversion"
)

// rolePlaceholder stands where v1beta1 wants a role that v1alpha1 did not have.
const rolePlaceholder = "$KARPENTER_NODE_ROLE"

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
		terms    func(conversion.Object) ([]any, []string, error)
	}{
		{"subnetSelector", "subnetSelectorTerms", selectorTerms}, {"securityGroupSelector", "securityGroupSelectorTerms", selectorTerms},
		{"amiSelector", "amiSelectorTerms", imageTerms},
	} {
		if err := r.selector(i, f, s.from, s.to, s.terms); err != nil {
			return fmt.Errorf("spec.%s: %w", s.from, err)
		}
	}
	if profile, _ := f.spec["instanceProfile"].(string); profile == "" && f.spec["role"] == nil {
		delete(f.spec, "instanceProfile")
		f.spec["role"] = rolePlaceholder
		r.addNote(i, "spec.role", "is required and was not there: replace %s by the role of the nodes", rolePlaceholder)
	}
	delete(i.new, "status")
	i.new["apiVersion"], i.new["kind"], i.new["spec"] = "karpenter.k8s.aws/v1beta1", "EC2NodeClass", f.spec
	return f.err
}

// selector turns a selector map into terms. The draft had lists of terms already, under the old name.
func (r *run) selector(i *item, f *fields, from, to string, terms func(conversion.Object) ([]any, []string, error)) error {
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
		made, dropped, err := terms(m)
		if err != nil {
			return err
		}
		for _, name := range dropped {
			r.addNote(i, "spec."+from, "%s cannot be combined with ids and was dropped", name)
		}
		if len(made) > 0 {
			f.spec[to] = made
		}
	}
	return nil
}

// choices are the values of a comma-separated list. A selector that names none, or whose value is no text,
// cannot be written as terms: without the key it would select more.
func choices(selector conversion.Object, name string) ([]string, error) {
	v, there := selector[name]
	if !there {
		return nil, nil
	}
	text, isText := v.(string)
	if !isText {
		return nil, fmt.Errorf("%s: must be a string, is %v", name, v)
	}
	var out []string
	for _, s := range strings.Split(text, ",") {
		if s = strings.TrimSpace(s); s != "" {
			out = append(out, s)
		}
	}
	if len(out) == 0 {
		return nil, fmt.Errorf("%s: is empty; terms cannot select an empty value", name)
	}
	return out, nil
}

// tagSets are the maps of tags that a selector stands for: one for each choice from its comma-separated
// values; nil if it has no tags. special are the keys that are no tags.
func tagSets(selector conversion.Object, special []string) ([]conversion.Object, error) {
	sets, tags := []conversion.Object{{}}, false
	for _, name := range slices.Sorted(maps.Keys(selector)) {
		switch {
		case slices.Contains(special, name):
			continue
		case name == "":
			return nil, errors.New("an empty tag key is not supported")
		case strings.HasPrefix(name, "aws::"):
			return nil, fmt.Errorf("%s: is not known", name)
		}
		values, err := choices(selector, name)
		if err != nil {
			return nil, err
		}
		var next []conversion.Object
		for _, set := range sets {
			for _, value := range values {
				more := maps.Clone(set)
				more[name] = value
				next = append(next, more)
			}
		}
		sets, tags = next, true
		if len(sets) > termsMax {
			return nil, fmt.Errorf("%s: stands for more than %d terms", name, termsMax)
		}
	}
	if !tags {
		return nil, nil
	}
	return sets, nil
}

// termsMax is how many terms a selector may have.
const termsMax = 30

var idKeys = []string{"aws-ids", "aws::ids"}

// several returns the choices of all keys with the same meaning.
func several(selector conversion.Object, names ...string) (out []string, err error) {
	for _, name := range names {
		list, err := choices(selector, name)
		if err != nil {
			return nil, err
		}
		out = append(out, list...)
	}
	return out, nil
}

// selectorTerms of subnets and security groups: one term for each id, else one for each set of tags.
func selectorTerms(selector conversion.Object) (terms []any, dropped []string, err error) {
	sets, err := tagSets(selector, idKeys)
	if err != nil {
		return nil, nil, err
	}
	list, err := several(selector, idKeys...)
	if err != nil {
		return nil, nil, err
	}
	if len(list) > 0 {
		if sets != nil {
			dropped = append(dropped, "tags")
		}
		return idTerms(list), dropped, nil
	}
	for _, set := range sets {
		terms = append(terms, conversion.Object{"tags": set})
	}
	return terms, nil, nil
}

func idTerms(list []string) (terms []any) {
	for _, id := range list {
		terms = append(terms, conversion.Object{"id": id})
	}
	return terms
}

// imageTerms: owners x names x sets of tags; an id stands alone.
func imageTerms(selector conversion.Object) (terms []any, dropped []string, err error) {
	ownerKeys, nameKeys := []string{"aws::owners"}, []string{"aws::name", "aws::names"}
	sets, err := tagSets(selector, slices.Concat(idKeys, ownerKeys, nameKeys))
	if err != nil {
		return nil, nil, err
	}
	list, err1 := several(selector, idKeys...)
	owners, err2 := several(selector, ownerKeys...)
	names, err3 := several(selector, nameKeys...)
	if err := errors.Join(err1, err2, err3); err != nil {
		return nil, nil, err
	}
	if len(list) > 0 {
		for _, rest := range []struct {
			name  string
			there bool
		}{{"aws::name", len(names) > 0}, {"aws::owners", len(owners) > 0}, {"tags", sets != nil}} {
			if rest.there {
				dropped = append(dropped, rest.name)
			}
		}
		return idTerms(list), dropped, nil
	}
	for _, owner := range orNone(owners) {
		for _, name := range orNone(names) {
			for _, set := range orEmpty(sets) {
				if term := imageTerm(owner, name, set); len(term) > 0 {
					terms = append(terms, term)
				}
			}
		}
	}
	return terms, nil, nil
}

func imageTerm(owner, name string, tags conversion.Object) conversion.Object {
	term := conversion.Object{}
	if owner != "" {
		term["owner"] = owner
	}
	if name != "" {
		term["name"] = name
	}
	if len(tags) > 0 {
		term["tags"] = tags
	}
	return term
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
