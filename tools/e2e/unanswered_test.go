package e2e

import (
	"net/http"
	"strings"
	"sync/atomic"
	"testing"

	"millwright/tools/stack"
)

// The API server takes the first event and never answers, on a connection on which all else is answered.
// Those that come afterwards are published all the same.
func TestAnEventThatIsNeverAnswered(t *testing.T) {
	var hung atomic.Bool
	end := make(chan struct{})
	w := &witnesses{cut: func(c call, carriedOut bool) bool {
		if !carriedOut && c.method == http.MethodPost && strings.HasSuffix(c.path, "/events") && hung.CompareAndSwap(false, true) {
			<-end
			return true
		}
		return false
	}}
	e := start(t, func(o *stack.Options) { o.Through = w.through(t) })
	t.Cleanup(func() { close(end) })
	e.apply(defaultClass)
	e.apply(defaultPool)
	e.deploy("web", 1, "3", "1Gi")
	e.running("web", 1)
	e.hasEvent("NodeClaim", e.nodeClaims()[0].GetName(), "Launched")
	if !hung.Load() {
		t.Error("no event was published")
	}
	e.scale("web", 0)
	e.clean()
	e.sound()
}
