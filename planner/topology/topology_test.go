package topology

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"pgregory.net/rapid"
)

var web = &metav1.LabelSelector{MatchLabels: map[string]string{"app": "web"}}

// The rules: scheduling §8.2.
func TestTermsCountTheRightPods(t *testing.T) {
	all := []Namespace{{"prod", map[string]string{"env": "prod"}}, {"test", nil}}
	affinity := func(term corev1.PodAffinityTerm) *corev1.PodSpec {
		return &corev1.PodSpec{Affinity: &corev1.Affinity{PodAffinity: &corev1.PodAffinity{RequiredDuringSchedulingIgnoredDuringExecution: []corev1.PodAffinityTerm{term}}}}
	}
	spread := func(c corev1.TopologySpreadConstraint) *corev1.PodSpec {
		return &corev1.PodSpec{TopologySpreadConstraints: []corev1.TopologySpreadConstraint{c}}
	}
	for name, c := range map[string]struct {
		spec      *corev1.PodSpec
		labels    map[string]string
		namespace string
		want      bool
	}{
		"own namespace by default":              {affinity(corev1.PodAffinityTerm{LabelSelector: web}), map[string]string{"app": "web"}, "test", true},
		"not another one":                       {affinity(corev1.PodAffinityTerm{LabelSelector: web}), map[string]string{"app": "web"}, "prod", false},
		"a listed namespace":                    {affinity(corev1.PodAffinityTerm{LabelSelector: web, Namespaces: []string{"prod"}}), map[string]string{"app": "web"}, "prod", true},
		"listed ones exclude the own":           {affinity(corev1.PodAffinityTerm{LabelSelector: web, Namespaces: []string{"prod"}}), map[string]string{"app": "web"}, "test", false},
		"a selected namespace":                  {affinity(corev1.PodAffinityTerm{LabelSelector: web, NamespaceSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"env": "prod"}}}), map[string]string{"app": "web"}, "prod", true},
		"the empty selector means all":          {affinity(corev1.PodAffinityTerm{LabelSelector: web, NamespaceSelector: &metav1.LabelSelector{}}), map[string]string{"app": "web"}, "unknown", true},
		"no selector counts nobody":             {spread(corev1.TopologySpreadConstraint{}), map[string]string{"app": "web"}, "test", false},
		"the empty selector counts everybody":   {spread(corev1.TopologySpreadConstraint{LabelSelector: &metav1.LabelSelector{}}), nil, "test", true},
		"matchLabelKeys demand the own value":   {spread(corev1.TopologySpreadConstraint{LabelSelector: web, MatchLabelKeys: []string{"hash", "none"}}), map[string]string{"app": "web", "hash": "2"}, "test", false},
		"matchLabelKeys count the same version": {spread(corev1.TopologySpreadConstraint{LabelSelector: web, MatchLabelKeys: []string{"hash", "none"}}), map[string]string{"app": "web", "hash": "1"}, "test", true},
	} {
		t.Run(name, func(t *testing.T) {
			terms := TermsOf(c.spec, map[string]string{"app": "web", "hash": "1"}, "test", all)
			if len(terms) != 1 || terms[0].Matches(c.labels, c.namespace) != c.want {
				t.Errorf("got %+v", terms)
			}
			s := NewSpace()
			s.Add(terms[0], "", 0)
			s.Freeze()
			if found := s.Matching(c.labels, c.namespace); (len(found) == 1) != c.want {
				t.Errorf("the index found %d groups", len(found))
			}
			owned := terms[0]
			owned.Kind = Inverse
			s.Add(owned, "", 0)
			if found := s.Inverses(c.labels, c.namespace); (len(found) == 1) != c.want {
				t.Errorf("the index of owners found %d groups", len(found))
			}
		})
	}
}

func TestSoftTermsComeHeaviestFirst(t *testing.T) {
	spec := &corev1.PodSpec{Affinity: &corev1.Affinity{PodAntiAffinity: &corev1.PodAntiAffinity{
		PreferredDuringSchedulingIgnoredDuringExecution: []corev1.WeightedPodAffinityTerm{
			{Weight: 1, PodAffinityTerm: corev1.PodAffinityTerm{TopologyKey: "light"}}, {Weight: 9, PodAffinityTerm: corev1.PodAffinityTerm{TopologyKey: "heavy"}}},
		RequiredDuringSchedulingIgnoredDuringExecution: []corev1.PodAffinityTerm{{TopologyKey: "hard"}},
	}}}
	got := TermsOf(spec, nil, "x", nil)
	if got[0].Key != "hard" || got[0].Soft || got[1].Key != "heavy" || got[2].Key != "light" {
		t.Errorf("%+v", got)
	}
}

// The rules: scheduling §8.3 to §8.5.
func TestAllowedDomains(t *testing.T) {
	for name, c := range map[string]struct {
		term   Term
		self   bool
		pod    string // domains of the pod
		counts map[string]int32
		want   string
		one    bool
	}{
		"spread: below the skew":                     {Term{Kind: Spread, MaxSkew: 1}, true, "abc", map[string]int32{"a": 1}, "bc", true},
		"spread: a pod that does not count itself":   {Term{Kind: Spread, MaxSkew: 1}, false, "abc", map[string]int32{"a": 1}, "abc", true},
		"spread: the pod's domains alone count":      {Term{Kind: Spread, MaxSkew: 1}, true, "ab", map[string]int32{"a": 1, "b": 1}, "ab", true},
		"spread: fewer domains than demanded":        {Term{Kind: Spread, MaxSkew: 1, MinDomains: 3}, true, "ab", map[string]int32{"a": 1, "b": 1}, "", true},
		"affinity: where they are":                   {Term{Kind: Affinity}, true, "abc", map[string]int32{"b": 2, "c": 1}, "bc", false},
		"affinity: the first one may go anywhere":    {Term{Kind: Affinity}, true, "abc", nil, "abc", true},
		"affinity: to others that do not exist":      {Term{Kind: Affinity}, false, "abc", nil, "", false},
		"affinity: nobody where the pod may be":      {Term{Kind: Affinity}, true, "ab", map[string]int32{"c": 1}, "ab", true},
		"anti-affinity: where nobody is":             {Term{Kind: AntiAffinity}, true, "abc", map[string]int32{"b": 1}, "ac", true},
		"inverse: where no owner is, without choice": {Term{Kind: Inverse}, false, "abc", map[string]int32{"b": 1}, "ac", false},
	} {
		t.Run(name, func(t *testing.T) {
			s := NewSpace()
			c.term.Key, c.term.Selector = "zone", selectorOf(web)
			g := s.Add(c.term, "", 0)
			for _, d := range []string{"c", "a", "b"} {
				g.Domains.AddDomain(d)
			}
			s.Freeze()
			k := &Constraint{Kind: c.term.Kind, Group: g, Term: c.term, Self: c.self, Pod: g.Domains.NewMask()}
			for _, d := range c.pod {
				k.Pod.Add(g.Domains.Index(string(d)))
			}
			for _, d := range []string{"a", "b", "c"} {
				g.Record(g.Domains.Index(d), c.counts[d])
			}
			m, one := k.Allowed()
			got := ""
			for i := range g.Domains.Len() {
				if m.Has(i) {
					got += g.Domains.Name(i)
				}
			}
			if got != c.want || one != c.one {
				t.Errorf("got %q (one %v), want %q (one %v)", got, one, c.want, c.one)
			}
		})
	}
}

func TestPlacesAreCountedWhereverTheyLie(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		g := NewSpace().Add(Term{Kind: AntiAffinity, Key: corev1.LabelHostname, Selector: selectorOf(web)}, "", 0)
		counts := map[int]int32{}
		place := rapid.SampledFrom([]int{0, 1, 63, 64, 500, 501, 640, 1000})
		for range rapid.IntRange(1, 20).Draw(rt, "records") {
			i, n := place.Draw(rt, "place"), rapid.Int32Range(1, 2).Draw(rt, "pods")
			if counts[i] >= n && rapid.Bool().Draw(rt, "taken back") {
				n = -n
			}
			g.Record(i, n)
			counts[i] += n
		}
		for i := range 1100 {
			if g.Count(i) != counts[i] || g.Taken(i/64)>>(i%64)&1 == 1 != (counts[i] > 0) {
				rt.Fatalf("place %d counts %d, want %d; word %b", i, g.Count(i), counts[i], g.Taken(i/64))
			}
		}
	})
}

// The rules: scheduling §8.5.
func TestErrorNamesTheCounts(t *testing.T) {
	s := NewSpace()
	term := Term{Kind: Spread, Key: "zone", Selector: selectorOf(web)}
	g := s.Add(term, "", 0)
	g.Domains.AddDomain("b")
	g.Domains.AddDomain("a")
	s.Freeze()
	g.Record(0, 1)
	c := &Constraint{Kind: Spread, Group: g, Term: term}
	want := "unsatisfiable topology constraint for topology spread, key=zone (counts = a: 1, b: 0, podDomains = x, nodeDomains = y"
	if got := c.Error("x", "y"); got != want {
		t.Errorf("got %s", got)
	}
}
