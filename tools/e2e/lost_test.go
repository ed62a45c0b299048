package e2e

import (
	"math/rand/v2"
	"net/http"
	"sync"
	"testing"
	"time"

	"millwright/tools/stack"
)

// Every fourth write to the API server, and every fourth call of EC2, is carried out but never answered,
// while pods come and go. Nothing is done twice, and nothing is left undone.
func TestAnswersAreLostAtRandom(t *testing.T) {
	var mu sync.Mutex
	random, share, lost := rand.New(rand.NewPCG(5, 0)), 0.25, 0
	w := &witnesses{lost: func(r *http.Request) bool {
		if r.Method == http.MethodGet || r.Method == http.MethodHead {
			return false
		}
		mu.Lock()
		defer mu.Unlock()
		if random.Float64() >= share {
			return false
		}
		lost++
		return true
	}}
	e := start(t, func(o *stack.Options) { o.Through = w.through(t) })
	e.apply(defaultClass)
	e.apply(defaultPool)
	e.hasCondition(nodeClasses, "default", "Ready", "True", "")
	c := e.newCrashes(6, nil)
	for range 6 {
		c.churn()
		time.Sleep(c.upTo(10 * time.Second))
	}
	c.endChurn()
	mu.Lock()
	defer mu.Unlock()
	if lost < 20 {
		t.Errorf("only %d answers were lost", lost)
	}
}
