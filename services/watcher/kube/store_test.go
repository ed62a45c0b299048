package kube

import (
	"errors"
	"fmt"
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"millwright/events"
	"millwright/planner/world"
	"millwright/services/watcher"
)

// recorder is a Sink that notes what is published, as text.
type recorder struct {
	got  []string
	fail error
}

func (r *recorder) Publish(c watcher.Change) error {
	if r.fail != nil {
		return r.fail
	}
	r.got = append(r.got, fmt.Sprintf("%s %s %s@%s", c.Op, c.Name, c.UID, c.ResourceVersion))
	return nil
}

func (r *recorder) expect(t *testing.T, want ...string) {
	t.Helper()
	if !slices.Equal(r.got, want) {
		t.Fatalf("published %q, want %q", r.got, want)
	}
	r.got = nil
}

func pod(name, uid, version string) *corev1.Pod {
	return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name, UID: types.UID(uid), ResourceVersion: version}}
}

func node(name, uid, version string) *corev1.Node {
	return &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, UID: types.UID(uid), ResourceVersion: version}}
}

func kindOf(k events.Kind) kind {
	return kinds[slices.IndexFunc(kinds, func(c kind) bool { return c.kind == k })]
}

func check(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func TestStorePublishesAListAndThenDifferences(t *testing.T) {
	r, lists := &recorder{}, 0
	s := newStore(kindOf(events.KindPod), r, func() { lists++ })
	check(t, s.Replace([]any{pod("a", "1", "5"), pod("b", "2", "6")}, "7"))
	r.expect(t, "upsert ns/a 1@5", "upsert ns/b 2@6")
	if lists != 1 || s.progress() != "7" {
		t.Fatalf("%d lists, progress %s", lists, s.progress())
	}
	check(t, s.Update(pod("a", "1", "5")))
	r.expect(t) // an unchanged resourceVersion
	changed := pod("a", "1", "8")
	changed.Spec.NodeName = "n"
	check(t, s.Update(changed))
	r.expect(t, "upsert ns/a 1@8")
	check(t, s.Delete(pod("b", "2", "9")))
	r.expect(t, "delete ns/b 2@9")
	check(t, s.Delete(pod("b", "2", "9")))
	r.expect(t)
}

func TestStoreRelistPublishesOnlyWhatChanged(t *testing.T) {
	r := &recorder{}
	s := newStore(kindOf(events.KindNode), r, func() {})
	check(t, s.Replace([]any{node("a", "1", "5"), node("b", "2", "6"), node("c", "3", "6"), node("d", "4", "6")}, "7"))
	r.got = nil
	check(t, s.Replace([]any{node("c", "9", "20"), node("d", "4", "21"), node("a", "1", "5")}, "22"))
	r.expect(t, "delete c 3@", "upsert c 9@20", "upsert d 4@21", "delete b 2@")
}

func TestStoreSkipsWhatPlannersCannotSee(t *testing.T) {
	r := &recorder{}
	s := newStore(kindOf(events.KindPod), r, func() {})
	check(t, s.Add(pod("a", "1", "5")))
	started := pod("a", "1", "6")
	started.Status.PodIP = "10.0.0.1"
	started.Annotations = map[string]string{"example.com/x": "y"}
	check(t, s.Update(started))
	r.expect(t, "upsert ns/a 1@5")
	started = started.DeepCopy()
	started.ResourceVersion, started.Status.Phase = "7", corev1.PodRunning
	check(t, s.Update(started))
	r.expect(t, "upsert ns/a 1@7")
}

func TestStorePublishesEachVersionOfWhatServicesPatch(t *testing.T) {
	r := &recorder{}
	s := newStore(kindOf(events.KindNode), r, func() {})
	check(t, s.Add(node("a", "1", "5")))
	check(t, s.Update(node("a", "1", "6")))
	r.expect(t, "upsert a 1@5", "upsert a 1@6")
}

func TestStoreReplacesAnObjectOfTheSameName(t *testing.T) {
	r := &recorder{}
	s := newStore(kindOf(events.KindPod), r, func() {})
	check(t, s.Add(pod("a", "1", "5")))
	check(t, s.Add(pod("a", "2", "6")))
	r.expect(t, "upsert ns/a 1@5", "delete ns/a 1@", "upsert ns/a 2@6")
}

// folded is a Sink that folds what is published, and compares the World with the sum that came with it.
type folded struct {
	t       *testing.T
	world   *world.World
	counter uint64
}

func (f *folded) Publish(c watcher.Change) error {
	f.apply(events.Observation{Kind: c.Kind, Op: c.Op, UID: types.UID(c.UID), Name: c.Name, ResourceVersion: c.ResourceVersion, Object: c.Object})
	if held := f.world.Sums()[c.Kind.String()]; held != c.Sum {
		f.t.Errorf("after %s %s the World sums up to %+v, the store to %+v", c.Op, c.Name, held, c.Sum)
	}
	return nil
}

func (f *folded) apply(o events.Observation) {
	f.counter++
	o.Epoch, o.Counter = 1, f.counter
	f.world.Apply(f.counter, o)
}

func TestStoreSumsWhatAWorldHolds(t *testing.T) {
	for _, kind := range []events.Kind{events.KindPod, events.KindNode} {
		f := &folded{t: t, world: world.New()}
		f.apply(events.Observation{Op: events.OpResyncBegin})
		s := newStore(kindOf(kind), f, func() {})
		object := func(name, uid, version, label string) metav1.Object {
			var o metav1.Object = node(name, uid, version)
			if kind == events.KindPod {
				o = pod(name, uid, version)
			}
			o.SetLabels(map[string]string{"app": label})
			return o
		}
		check(t, s.Replace([]any{object("a", "1", "1", "x"), object("b", "2", "2", "x"), object("c", "3", "3", "x")}, "3"))
		check(t, s.Update(object("a", "1", "4", "x"))) // for pods nothing to publish
		check(t, s.Update(object("b", "2", "5", "y")))
		check(t, s.Update(object("a", "1", "6", "y")))
		check(t, s.Update(object("b", "4", "7", "y"))) // another object of the name
		check(t, s.Delete(object("c", "3", "8", "x")))
		check(t, s.Replace([]any{object("a", "1", "9", "z"), object("d", "5", "10", "x")}, "11"))
		if n := f.world.Sums()[kind.String()].Count; n != 2 {
			t.Errorf("%d %s are left", n, kind)
		}
	}
}

func TestStoreDoesNotRememberWhatWasNotPublished(t *testing.T) {
	r := &recorder{fail: errors.New("bus away")}
	s := newStore(kindOf(events.KindPod), r, func() { t.Fatal("counted as listed") })
	if err := s.Replace([]any{pod("a", "1", "5")}, "7"); err == nil {
		t.Fatal("no error")
	}
	r.fail = nil
	check(t, s.Add(pod("a", "1", "5")))
	r.expect(t, "upsert ns/a 1@5")
}

func TestEveryKubernetesKindIsWatchedOnce(t *testing.T) {
	var got []events.Kind
	for _, k := range allKinds() {
		got = append(got, k.kind)
	}
	slices.Sort(got)
	if !slices.Equal(got, events.KubeKinds()) {
		t.Fatalf("watched %v, want %v", got, events.KubeKinds())
	}
}
