package script

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
)

func TestACaseIsRunInAClusterOfItsOwnAfterWhatAllShare(t *testing.T) {
	text := "# A head.\nnamespace team\n\n== One.\npod a ns=team cpu=1\nsay a\n----\nold output\n\n# Why.\nsay a\n----\n\n== Two.\nsay a\n----\n"
	sections := sectionsOf(text)
	if len(sections) != 3 || sections[1].title != "One." || sections[2].title != "Two." {
		t.Fatalf("%+v", sections)
	}
	say := map[string]Verb{"say": func(c *Case, a *Args) {
		name := a.Next()
		p, ok := c.objects["pod "+name].(*corev1.Pod)
		c.Printf("%s: %v, %d messages\n", name, ok, len(c.Messages))
		if ok {
			c.Printf("in %s with %s\n", p.Namespace, p.Spec.Containers[0].Resources.Requests.Cpu())
		}
	}}
	one := strings.Join(runCase(t, say, sections[0].lines, sections[1].lines), "\n")
	if want := "== One.\npod a ns=team cpu=1\nsay a\n----\na: true, 6 messages\nin team with 1\n\n# Why.\nsay a\n----\na: true, 6 messages\nin team with 1\n"; one != want {
		t.Errorf("got\n%s\nwant\n%s", one, want)
	}
	two := strings.Join(runCase(t, say, sections[0].lines, sections[2].lines), "\n")
	if want := "== Two.\nsay a\n----\na: false, 5 messages"; two != want {
		t.Errorf("got\n%s\nwant\n%s", two, want)
	}
}

func TestABlockIsLaidOverTheObject(t *testing.T) {
	c := newCase(t, nil)
	p := newPod("a")
	p.Labels = map[string]string{"app": "a", "tier": "x"}
	got := Over(c, p, []string{"metadata: {labels: {tier: null, team: red}}", "spec: {priority: 5}", "status: {conditions: []}"})
	if got.Labels["app"] != "a" || got.Labels["team"] != "red" || len(got.Labels) != 2 {
		t.Errorf("labels %v", got.Labels)
	}
	if *got.Spec.Priority != 5 || len(got.Spec.Containers) != 1 || len(got.Status.Conditions) != 0 || got.Status.Phase != corev1.PodPending {
		t.Errorf("%+v", got)
	}
	if len(p.Labels) != 2 || p.Labels["tier"] != "x" {
		t.Errorf("the object below was changed: %v", p.Labels)
	}
}
