package view

import (
	"sync"
	"time"

	"millwright/planner"
	"millwright/store/audit/overview"
)

const (
	// waitsFresh is how long what would let a pod run is good for the next who asks, waitsMax for how many
	// pods it is remembered, and waitsTimeout how long it is sought, for one pod at a time: each change is
	// tried by a plan.
	waitsFresh   = 15 * time.Second
	waitsMax     = 64
	waitsTimeout = 3 * time.Second
)

// waits are answers for pods that wait, by name.
type waits struct {
	seeking sync.Mutex
	sync.Mutex
	known map[string]waiting
}

type waiting struct {
	lines []string
	at    time.Time
}

func (c *waits) get(s *planner.Snapshot, pod string, now func() time.Time) []string {
	began := now()
	c.Lock()
	k, ok := c.known[pod]
	c.Unlock()
	if ok && began.Sub(k.at).Abs() < waitsFresh {
		return k.lines
	}
	if !c.seeking.TryLock() {
		return []string{"now: what would let it run is being sought for another pod; ask again in some seconds"}
	}
	defer c.seeking.Unlock()
	lines := overview.PodWaits(s, pod, func() bool { return now().Sub(began) > waitsTimeout })
	c.Lock()
	defer c.Unlock()
	if len(c.known) >= waitsMax || c.known == nil {
		c.known = map[string]waiting{}
	}
	c.known[pod] = waiting{lines, began}
	return lines
}
