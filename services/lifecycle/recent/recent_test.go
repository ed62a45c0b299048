package recent

import (
	"fmt"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

var start = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

func node(name, version string) *corev1.Node {
	return &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, UID: types.UID("uid-" + name), ResourceVersion: version}}
}

func TestTheNewestVersionStandsInForTheCache(t *testing.T) {
	for what, c := range map[string]struct {
		cached string
		after  time.Duration
		want   string
	}{
		"the cache is behind":               {"5", time.Second, "7"},
		"the cache has caught up":           {"7", time.Second, "7"},
		"the cache is ahead":                {"9", time.Second, "9"},
		"the cache is behind for very long": {"5", 10 * time.Minute, "5"},
		"versions that are no numbers":      {"x", time.Second, "x"},
		"the cache does not have it yet":    {"", time.Second, "7"},
		"the cache has lost it":             {"", time.Minute, ""},
	} {
		k := NewObjects[*corev1.Node]()
		k.Saw(node("a", "7"), start)
		var cached *corev1.Node
		if c.cached != "" {
			cached = node("a", c.cached)
		}
		got, known := k.Newest("a", cached, cached != nil, start.Add(c.after))
		if known != (c.want != "") || known && got.ResourceVersion != c.want {
			t.Errorf("%s: got %v, want version %q", what, got, c.want)
		}
	}
}

func TestNoWriteStartsFromAnOutdatedVersion(t *testing.T) {
	k := NewOutdated()
	k.Add(node("a", "7"), start)
	k.Add(node("a", "6"), start) // an older answer that comes later changes nothing
	for version, want := range map[string]bool{"6": true, "7": true, "8": false} {
		if got := k.Has(node("a", version), start.Add(time.Minute)); got != want {
			t.Errorf("version %s is outdated: %t", version, got)
		}
	}
	if k.Has(node("b", "1"), start) {
		t.Error("another object is outdated")
	}
	if k.Has(node("a", "7"), start.Add(time.Hour)) {
		t.Error("a version is outdated for ever, whatever became of the API server")
	}
}

// A conflict that is no newer version's, as of a webhook, or of an API server that counts anew, is over once
// the object was read.
func TestWhatTheAPIServerSaysIsNewest(t *testing.T) {
	for name, c := range map[string]struct {
		read     string
		after    time.Duration
		outdated bool
	}{
		"the version itself":        {read: "7", outdated: false},
		"an older one":              {read: "2", outdated: false},
		"a newer one":               {read: "8", outdated: true},
		"what was asked for before": {read: "7", after: -time.Second, outdated: true},
	} {
		t.Run(name, func(t *testing.T) {
			k, now := NewOutdated(), start.Add(c.after)
			k.Add(node("a", "7"), start)
			k.Newest(node("a", c.read), now)
			if got := k.Has(node("a", "7"), now); got != c.outdated {
				t.Errorf("outdated: %t", got)
			}
		})
	}
}

func TestWhatIsOldIsForgotten(t *testing.T) {
	objects, outdated := NewObjects[*corev1.Node](), NewOutdated()
	now := start
	for i := range 100_000 {
		n := node(fmt.Sprintf("n-%d", i), "1")
		objects.Saw(n, now)
		outdated.Add(n, now)
		objects.Gone(n.Name, n.UID, now)
		now = now.Add(100 * time.Millisecond)
	}
	if objects.Len() > 10_000 || outdated.Len() > 5_000 {
		t.Errorf("%d objects and %d versions are remembered", objects.Len(), outdated.Len())
	}
}
