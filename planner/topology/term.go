package topology

import (
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/selection"
)

// Kind of a constraint.
type Kind uint8

const (
	Spread Kind = iota
	Affinity
	AntiAffinity
	// Inverse: pods with required anti-affinity keep away the pods they select.
	Inverse
)

// String is how errors name the kind.
func (k Kind) String() string {
	switch k {
	case Spread:
		return "topology spread"
	case Affinity:
		return "pod affinity"
	}
	return "pod anti-affinity"
}

// Term is one constraint of a pod as it stands in its spec.
type Term struct {
	Kind Kind
	// Key as written: aliases are not applied to topology keys.
	Key string
	// Soft terms may be given up. Weight orders soft affinity terms.
	Soft   bool
	Weight int32
	// Selector matches nothing if the spec has none.
	Selector labels.Selector
	// Namespaces in which the selector counts, sorted; all if AllNamespaces.
	Namespaces    []string
	AllNamespaces bool
	MaxSkew       int32
	MinDomains    int32
	// IgnoreAffinity and HonorTaints are spread's nodeAffinityPolicy and nodeTaintsPolicy.
	IgnoreAffinity, HonorTaints bool
}

// Namespace with its labels, for namespace selectors.
type Namespace struct {
	Name   string
	Labels map[string]string
}

// TermsOf lists the constraints of a pod: spread in the pod's order, then affinity and anti-affinity,
// required ones first, soft ones heaviest first. A term with an invalid selector matches nothing.
func TermsOf(spec *corev1.PodSpec, podLabels map[string]string, namespace string, all []Namespace) []Term {
	var terms []Term
	for i := range spec.TopologySpreadConstraints {
		terms = append(terms, spreadTerm(&spec.TopologySpreadConstraints[i], podLabels, namespace))
	}
	a := spec.Affinity
	if a == nil {
		return terms
	}
	if p := a.PodAffinity; p != nil {
		terms = append(terms, affinityTerms(Affinity, p.RequiredDuringSchedulingIgnoredDuringExecution, p.PreferredDuringSchedulingIgnoredDuringExecution, podLabels, namespace, all)...)
	}
	if p := a.PodAntiAffinity; p != nil {
		terms = append(terms, affinityTerms(AntiAffinity, p.RequiredDuringSchedulingIgnoredDuringExecution, p.PreferredDuringSchedulingIgnoredDuringExecution, podLabels, namespace, all)...)
	}
	return terms
}

func spreadTerm(c *corev1.TopologySpreadConstraint, podLabels map[string]string, namespace string) Term {
	t := Term{
		Kind: Spread, Key: c.TopologyKey, Soft: c.WhenUnsatisfiable == corev1.ScheduleAnyway, MaxSkew: c.MaxSkew,
		Selector: selectorOf(c.LabelSelector), Namespaces: []string{namespace},
	}
	if c.MinDomains != nil {
		t.MinDomains = *c.MinDomains
	}
	if c.NodeAffinityPolicy != nil {
		t.IgnoreAffinity = *c.NodeAffinityPolicy == corev1.NodeInclusionPolicyIgnore
	}
	if c.NodeTaintsPolicy != nil {
		t.HonorTaints = *c.NodeTaintsPolicy == corev1.NodeInclusionPolicyHonor
	}
	if c.LabelSelector == nil {
		return t
	}
	for _, k := range c.MatchLabelKeys {
		if v, ok := podLabels[k]; ok {
			own := labels.SelectorFromSet(labels.Set{k: v})
			reqs, _ := own.Requirements()
			t.Selector = t.Selector.Add(reqs...)
		}
	}
	return t
}

func affinityTerms(kind Kind, required []corev1.PodAffinityTerm, preferred []corev1.WeightedPodAffinityTerm, podLabels map[string]string, namespace string, all []Namespace) []Term {
	var terms []Term
	for i := range required {
		terms = append(terms, affinityTerm(kind, &required[i], podLabels, namespace, all))
	}
	first := len(terms)
	for i := range preferred {
		t := affinityTerm(kind, &preferred[i].PodAffinityTerm, podLabels, namespace, all)
		t.Soft, t.Weight = true, preferred[i].Weight
		terms = append(terms, t)
	}
	slices.SortStableFunc(terms[first:], func(a, b Term) int { return int(b.Weight) - int(a.Weight) })
	return terms
}

// Together has each term of required affinity count just the pods that match all of them, as kube-scheduler
// does: a pod that wants to be near app=cache and near tier=fast follows those that are both.
func Together(terms []Term) {
	var required []*Term
	for i := range terms {
		if terms[i].Kind == Affinity && !terms[i].Soft {
			required = append(required, &terms[i])
		}
	}
	if len(required) < 2 {
		return
	}
	all := *required[0]
	for _, t := range required[1:] {
		all.narrow(t)
	}
	for _, t := range required {
		t.Selector, t.Namespaces, t.AllNamespaces = all.Selector, all.Namespaces, all.AllNamespaces
	}
}

// narrow leaves a term the pods that another one matches too.
func (t *Term) narrow(by *Term) {
	if reqs, selectable := by.Selector.Requirements(); selectable {
		t.Selector = t.Selector.Add(reqs...)
	} else {
		t.Selector = labels.Nothing()
	}
	switch {
	case by.AllNamespaces:
	case t.AllNamespaces:
		t.AllNamespaces, t.Namespaces = false, by.Namespaces
	default:
		t.Namespaces = slices.DeleteFunc(slices.Clone(t.Namespaces), func(n string) bool { return !slices.Contains(by.Namespaces, n) })
	}
}

// withOwn adds what matchLabelKeys and mismatchLabelKeys say. The API server writes it into the selector,
// where adding it again changes nothing; in a manifest that has not been sent to it yet, only this adds it.
func withOwn(s labels.Selector, a *corev1.PodAffinityTerm, podLabels map[string]string) labels.Selector {
	if a.LabelSelector == nil {
		return s
	}
	add := func(keys []string, op selection.Operator) {
		for _, k := range keys {
			if v, ok := podLabels[k]; ok {
				if r, err := labels.NewRequirement(k, op, []string{v}); err == nil {
					s = s.Add(*r)
				}
			}
		}
	}
	add(a.MatchLabelKeys, selection.In)
	add(a.MismatchLabelKeys, selection.NotIn)
	return s
}

func affinityTerm(kind Kind, a *corev1.PodAffinityTerm, podLabels map[string]string, namespace string, all []Namespace) Term {
	t := Term{Kind: kind, Key: a.TopologyKey, Selector: withOwn(selectorOf(a.LabelSelector), a, podLabels)}
	t.Namespaces = slices.Clone(a.Namespaces)
	switch {
	case a.NamespaceSelector == nil && len(a.Namespaces) == 0:
		t.Namespaces = []string{namespace}
	case a.NamespaceSelector != nil:
		s := selectorOf(a.NamespaceSelector)
		t.AllNamespaces = s.Empty()
		for _, n := range all {
			if s.Matches(labels.Set(n.Labels)) {
				t.Namespaces = append(t.Namespaces, n.Name)
			}
		}
	}
	slices.Sort(t.Namespaces)
	t.Namespaces = slices.Compact(t.Namespaces)
	return t
}

// selectorOf matches nothing for nil, as kube-scheduler does.
func selectorOf(s *metav1.LabelSelector) labels.Selector {
	sel, err := metav1.LabelSelectorAsSelector(s)
	if err != nil {
		return labels.Nothing()
	}
	return sel
}

// Matches reports that the term's selector counts a pod.
func (t *Term) Matches(podLabels labels.Set, namespace string) bool {
	if !t.AllNamespaces {
		if _, ok := slices.BinarySearch(t.Namespaces, namespace); !ok {
			return false
		}
	}
	return t.Selector.Matches(podLabels)
}

// identity names what the term counts. exact tells a selector that matches nothing from one that matches
// everything; as texts they are the same.
func (t *Term) identity(filter string, exact bool) string {
	namespaces := strings.Join(t.Namespaces, ",")
	if t.AllNamespaces {
		namespaces = "*"
	}
	selector := t.Selector.String()
	if _, selectable := t.Selector.Requirements(); !selectable && exact {
		selector = "!"
	}
	return strings.Join([]string{t.Key, namespaces, selector, filter}, "\x00")
}
