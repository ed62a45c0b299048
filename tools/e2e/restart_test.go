package e2e

import (
	"fmt"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"millwright/deploy/manifests"
	"millwright/tools/stack"
)

// churn makes pods come and go until stop is closed, and returns once it has stopped.
func (e *env) churn(stop <-chan struct{}) <-chan struct{} {
	done := make(chan struct{})
	go func() {
		defer close(done)
		sizes := []int32{2, 5, 1, 6, 3, 0, 4}
		for i := 0; ; i++ {
			select {
			case <-stop:
				return
			case <-time.After(1500 * time.Millisecond):
				// The API server may be down; the next round tries again.
				_ = e.tryScale("churn", sizes[i%len(sizes)])
			}
		}
	}()
	return done
}

func TestEachProcessRestartedWhilePodsComeAndGo(t *testing.T) {
	e := start(t, func(o *stack.Options) { o.FiveProcesses = true })
	e.apply(defaultClass)
	e.apply(defaultPool)
	e.deploy("churn", 1, "3", "1Gi")
	e.running("churn", 1)
	stop := make(chan struct{})
	stopped := e.churn(stop)
	for _, victim := range append([]string{"etcd", "nats"}, stack.Services...) {
		e.Logf("kill -9 %s", victim)
		p := e.stack.Process(victim)
		if err := p.Kill(); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Second)
		if err := p.Restart(); err != nil {
			t.Fatal(err)
		}
		time.Sleep(2 * time.Second)
	}
	e.Log("kill -9 kube-apiserver")
	if err := e.stack.Cluster.Kill("kube-apiserver"); err != nil {
		t.Fatal(err)
	}
	time.Sleep(3 * time.Second)
	close(stop)
	<-stopped
	e.scale("churn", 4)
	e.running("churn", 4)
	e.matched()
	e.scale("churn", 0)
	e.clean()
	e.sound()
}

func TestOneProcessKilledInTheMiddleOfLaunches(t *testing.T) {
	e := start(t, nil)
	e.apply(defaultClass)
	e.apply(defaultPool)
	e.hasCondition(nodeClasses, "default", "Ready", "True", "")
	p := e.stack.Process("millwright")
	for round := range 3 {
		e.deploy(fmt.Sprintf("burst%d", round), 3, "3", "1Gi")
		// At some moment between decision, NodeClaim, CreateFleet and registration.
		time.Sleep(time.Duration(150+400*round) * time.Millisecond)
		if err := p.Kill(); err != nil {
			t.Fatal(err)
		}
		if err := p.Restart(); err != nil {
			t.Fatal(err)
		}
	}
	for round := range 3 {
		e.running(fmt.Sprintf("burst%d", round), 3)
	}
	e.matched()
	for round := range 3 {
		e.scale(fmt.Sprintf("burst%d", round), 0)
	}
	e.clean()
	e.sound()
}

func TestStandbyTakesOver(t *testing.T) {
	e := start(t, func(o *stack.Options) { o.FiveProcesses, o.Standbys = true, true })
	e.apply(defaultClass)
	e.apply(defaultPool)
	e.deploy("web", 1, "3", "1Gi")
	e.running("web", 1)
	for _, service := range stack.Services {
		if err := e.stack.Process(service).Kill(); err != nil {
			t.Fatal(err)
		}
	}
	e.scale("web", 3)
	e.running("web", 3)
	e.matched()
	e.scale("web", 0)
	e.clean()
	e.sound()
}

// helm uninstall takes the rights of the ServiceAccount away, and the ServiceAccount itself, before the
// process is told to stop: it ends all the same, long before it would be killed.
func TestWithoutItsRightsItStillEnds(t *testing.T) {
	for _, what := range []string{"bindings", "account"} {
		t.Run(what, func(t *testing.T) {
			e := start(t, nil)
			e.apply(defaultClass)
			e.apply(defaultPool)
			e.deploy("web", 1, "1", "1Gi")
			e.running("web", 1)
			e.scale("web", 0)
			e.clean()
			if what == "account" {
				if err := e.kube.CoreV1().ServiceAccounts(manifests.Namespace).Delete(e.Context(), "millwright", metav1.DeleteOptions{}); err != nil {
					t.Fatal(err)
				}
			}
			selector := metav1.ListOptions{LabelSelector: "app.kubernetes.io/instance=millwright"}
			if err := e.kube.RbacV1().ClusterRoleBindings().DeleteCollection(e.Context(), metav1.DeleteOptions{}, selector); err != nil {
				t.Fatal(err)
			}
			for _, ns := range []string{manifests.Namespace, metav1.NamespaceSystem, metav1.NamespaceDefault} {
				if err := e.kube.RbacV1().RoleBindings(ns).DeleteCollection(e.Context(), metav1.DeleteOptions{}, selector); err != nil {
					t.Fatal(err)
				}
			}
			began := time.Now()
			if err := e.stack.Process("millwright").Stop(); err != nil {
				t.Fatal(err)
			}
			t.Logf("ended in %s", time.Since(began))
		})
	}
}
