package e2e

import (
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"

	mwv1alpha1 "millwright/api/millwright/v1alpha1"
	"millwright/deploy/manifests"
	"millwright/tools/stack"
)

const surgePolicy = `
apiVersion: millwright.sh/v1alpha1
kind: DisruptionPolicy
metadata: {name: gentle}
spec:
  surge: {within: 5m}
`

// allowSurge gives Millwright the rights of the chart's surge.enabled.
func (e *env) allowSurge() {
	e.Helper()
	meta := metav1.ObjectMeta{Name: "surge"}
	role := &rbacv1.ClusterRole{ObjectMeta: meta, Rules: []rbacv1.PolicyRule{
		{APIGroups: []string{"apps"}, Resources: []string{"deployments"}, Verbs: []string{"get", "patch"}},
		{APIGroups: []string{"apps"}, Resources: []string{"replicasets"}, Verbs: []string{"get"}},
	}}
	if _, err := e.kube.RbacV1().ClusterRoles().Create(e.Context(), role, metav1.CreateOptions{}); err != nil {
		e.Fatal(err)
	}
	if _, err := e.kube.RbacV1().ClusterRoleBindings().Create(e.Context(), &rbacv1.ClusterRoleBinding{ObjectMeta: meta,
		RoleRef:  rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "surge"},
		Subjects: []rbacv1.Subject{{Kind: "ServiceAccount", Name: "millwright", Namespace: manifests.Namespace}}}, metav1.CreateOptions{}); err != nil {
		e.Fatal(err)
	}
}

// leastReady watches the pods of an app from now on; what it returns ends that, and says how few were ready
// and not being deleted at any time.
func (e *env) leastReady(app string) func() int {
	e.Helper()
	list, err := e.kube.CoreV1().Pods("default").List(e.Context(), metav1.ListOptions{LabelSelector: "app=" + app})
	if err != nil {
		e.Fatal(err)
	}
	ready := map[types.UID]bool{}
	for i := range list.Items {
		ready[list.Items[i].UID] = serves(&list.Items[i])
	}
	w, err := e.kube.CoreV1().Pods("default").Watch(e.Context(), metav1.ListOptions{LabelSelector: "app=" + app, ResourceVersion: list.ResourceVersion})
	if err != nil {
		e.Fatal(err)
	}
	least, done := make(chan int, 1), make(chan struct{})
	count := func() (n int) {
		for _, yes := range ready {
			if yes {
				n++
			}
		}
		return n
	}
	go func() {
		few := count()
		for {
			select {
			case <-done:
				least <- few
				return
			case ev := <-w.ResultChan():
				if p, ok := ev.Object.(*corev1.Pod); ok {
					ready[p.UID] = ev.Type != watch.Deleted && serves(p)
					few = min(few, count())
				}
			}
		}
	}()
	return func() int {
		close(done)
		defer w.Stop()
		return <-least
	}
}

func serves(p *corev1.Pod) bool {
	if p.DeletionTimestamp != nil {
		return false
	}
	for _, c := range p.Status.Conditions {
		if c.Type == corev1.PodReady {
			return c.Status == corev1.ConditionTrue
		}
	}
	return false
}

// A node with the only pods of two Deployments drifts. The one that may surge has a ready pod at every
// moment; the other, of strategy Recreate, is evicted, and the log says why. The log is replayed.
func TestSinglePodsAreReplacedBeforeTheyAreEvicted(t *testing.T) {
	e := start(t, nil)
	e.allowSurge()
	e.apply(surgePolicy)
	e.apply(defaultClass)
	e.apply(defaultPool)
	e.deploy("web", 1, "500m", "512Mi")
	e.deploy("once", 1, "500m", "512Mi")
	e.patchDeployment("once", `{"spec":{"strategy":{"type":"Recreate","rollingUpdate":null}}}`)
	e.running("web", 1)
	e.running("once", 1)
	pods, err := e.kube.CoreV1().Pods("default").List(e.Context(), metav1.ListOptions{LabelSelector: "app=web"})
	if err != nil || len(pods.Items) != 1 {
		t.Fatalf("%d pods of web, %v", len(pods.Items), err)
	}
	old := pods.Items[0]
	e.eventually("web is ready", func() string {
		p, err := e.kube.CoreV1().Pods("default").Get(e.Context(), old.Name, metav1.GetOptions{})
		if err != nil || !serves(p) {
			return fmt.Sprintf("not ready, %v", err)
		}
		return ""
	})
	least := e.leastReady("web")
	e.apply(strings.Replace(defaultPool, "    spec:\n      requirements:", "    metadata: {labels: {team: blue}}\n    spec:\n      requirements:", 1))
	e.eventually("all nodes as the NodePool says now", func() string {
		for _, n := range e.poolNodes("default") {
			if n.Labels["team"] != "blue" {
				return fmt.Sprintf("node %s is of before", n.Name)
			}
		}
		return ""
	})
	e.running("web", 1)
	e.running("once", 1)
	if n := least(); n < 1 {
		t.Errorf("at some time %d pods of web were ready", n)
	}
	d, err := e.kube.AppsV1().Deployments("default").Get(e.Context(), "web", metav1.GetOptions{})
	if err != nil || *d.Spec.Replicas != 1 || d.Spec.Template.Annotations[mwv1alpha1.SurgeAnnotationKey] == "" {
		t.Errorf("Deployment web: %+v, %v", d.Spec.Template.Annotations, err)
	}
	log, _ := e.millctl("log", "--kind", "SurgeDecided")
	for _, text := range []string{"replaced first by Deployment default/web", "evicted as without surge: Deployment default/once has strategy Recreate"} {
		if !strings.Contains(log, text) {
			t.Errorf("the log does not say %q:\n%s", text, log)
		}
	}
	if story, _ := e.millctl("why", "pod", "default/"+old.Name); !strings.Contains(story, "one ready replica") || strings.Contains(story, "strategy Recreate") {
		t.Errorf("the story of the pod:\n%s", story)
	}
	e.hasEvent("Deployment", "web", "Replaces its pods before node")
	e.sound()
}

// A node drifts whose only pod has a PodDisruptionBudget that never lets it go. As long as its Deployment
// may miss a pod instead of having one more, the node stays, and why says so; then the pod is replaced
// first, and the node goes. A pod is ready at every moment.
func TestABudgetThatAllowsNoneIsNoObstacleToSurge(t *testing.T) {
	e := start(t, func(o *stack.Options) { o.MillwrightArgs = append(o.MillwrightArgs, "--surge-past-budgets") })
	e.allowSurge()
	e.apply(surgePolicy)
	e.apply(defaultClass)
	pool := namedPool("default", "m5.large")
	e.apply(pool)
	e.deploy("web", 1, "500m", "512Mi")
	e.patchDeployment("web", `{"spec":{"strategy":{"rollingUpdate":{"maxSurge":0,"maxUnavailable":1}}}}`)
	e.protect("web")
	e.running("web", 1)
	e.eventually("the budget counts the pod", func() string {
		b, err := e.kube.PolicyV1().PodDisruptionBudgets("default").Get(e.Context(), "web", metav1.GetOptions{})
		if err != nil || b.Status.CurrentHealthy != 1 {
			return fmt.Sprintf("%v, %v", b, err)
		}
		return ""
	})
	least, old := e.leastReady("web"), e.poolNodes("default")[0].Name
	e.apply(inTemplate(pool, "{labels: {team: blue}}"))
	e.eventually("it is said why the budget keeps the node", func() string {
		story, _ := e.millctl("why", "node", old)
		if !strings.Contains(story, "is not replaced first: maxSurge of Deployment default/web is 0") {
			return story
		}
		return ""
	})
	if n := len(e.moves("default")); n > 0 {
		t.Fatalf("%d commands", n)
	}
	e.patchDeployment("web", `{"spec":{"strategy":{"rollingUpdate":{"maxSurge":1,"maxUnavailable":0}}}}`)
	e.replaced("default", old)
	e.running("web", 1)
	if n := least(); n < 1 {
		t.Errorf("at some time %d pods of web were ready", n)
	}
	if story, _ := e.millctl("why", "node", old); !strings.Contains(story, "replaced first by Deployment default/web") {
		t.Errorf("the story of the node:\n%s", story)
	}
	e.endedOnce(1)
	e.sound()
}
