package kubeevent

import (
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/client-go/kubernetes/scheme"

	"millwright/services/internal/service"
)

// kubectl describe shows the events about a Lease by its UID, which who publishes them does not know.
func TestEventsAboutALeaseHaveItsUID(t *testing.T) {
	core := fake.NewClientset(&coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Namespace: "kube-system", Name: "there", UID: "uid-of-lease"}})
	made, err := core.CoreV1().Events("").Watch(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	defer made.Stop()
	sink, stop := NewRecorder(core, scheme.Scheme)
	defer stop()
	p := New(sink, time.Now)
	for name, want := range map[string]string{"there": "uid-of-lease", "gone": ""} {
		p.Publish(service.KubeEvent{Object: corev1.ObjectReference{APIVersion: "coordination.k8s.io/v1", Kind: "Lease", Namespace: "kube-system", Name: name},
			Type: corev1.EventTypeWarning, Reason: "Stopped", Message: "Stopped"})
		select {
		case e := <-made.ResultChan():
			if got := e.Object.(*corev1.Event).InvolvedObject; string(got.UID) != want || got.Name != name {
				t.Errorf("the event is about %+v, want uid %q", got, want)
			}
		case <-time.After(time.Minute):
			t.Fatalf("no event about %s", name)
		}
	}
}
