package world_test

import (
	"fmt"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	pt "millwright/planner/plannertest"
	"millwright/planner/world"
)

// TestDisplaced: what counts is how many young nodes of a NodePool in a row the pods of one line, each in
// place of the one before it, had to leave for a NoExecute taint.
func TestDisplaced(t *testing.T) {
	const taints, api = "DeletionByTaintManager", "EvictionByEvictionAPI"
	type leave struct {
		reason string
		after  time.Duration // since the node's creation
	}
	minute := leave{taints, time.Minute}
	for name, x := range map[string]struct {
		owner     [2]string
		unmanaged bool
		leaves    []leave
		want      uint8
	}{
		"none":                                 {leaves: nil, want: 0},
		"three in a row":                       {leaves: []leave{minute, minute, minute}, want: 3},
		"just young":                           {leaves: []leave{{taints, world.YoungFor - time.Second}}, want: 1},
		"an old node ends the row":             {leaves: []leave{minute, minute, {taints, world.YoungFor}}, want: 0},
		"one that is drained ends the row":     {leaves: []leave{minute, minute, {api, time.Minute}}, want: 0},
		"and begins another":                   {leaves: []leave{minute, {api, time.Minute}, minute}, want: 1},
		"nodes of nobody":                      {unmanaged: true, leaves: []leave{minute, minute}, want: 0},
		"a StatefulSet's":                      {owner: [2]string{"apps/v1", "StatefulSet"}, leaves: []leave{minute, minute}, want: 2},
		"a Job counts its own failures":        {owner: [2]string{"batch/v1", "Job"}, leaves: []leave{minute, minute}, want: 0},
		"more than there is room for a number": {leaves: make([]leave, 300), want: 255},
	} {
		t.Run(name, func(t *testing.T) {
			c := pt.New()
			owner := x.owner
			if owner[0] == "" {
				owner = [2]string{"apps/v1", "ReplicaSet"}
			}
			pod := func(i int, options ...func(*corev1.Pod)) *corev1.Pod {
				name := fmt.Sprint("web-", i)
				if owner[1] == "StatefulSet" {
					name = "web-0"
				}
				p := pt.Pod(name, append(options, pt.OwnedBy(owner[0], owner[1], "web"))...)
				p.CreationTimestamp = metav1.NewTime(c.Clock)
				return withUID(p, i)
			}
			c.See(pod(0))
			for i, l := range x.leaves {
				if l == (leave{}) {
					l = minute
				}
				node := fmt.Sprint("node-", i)
				c.See(pt.Node(node, func(n *corev1.Node) {
					n.CreationTimestamp = metav1.NewTime(c.Clock)
					if !x.unmanaged {
						pt.InPool("p")(n)
					}
				}))
				created := metav1.NewTime(c.Clock)
				c.Advance(l.after)
				evicted := pod(i, pt.On(node), pt.Deleting(c.Clock), func(p *corev1.Pod) {
					p.Status.Conditions = append(p.Status.Conditions, corev1.PodCondition{Type: corev1.DisruptionTarget, Status: corev1.ConditionTrue,
						Reason: l.reason, LastTransitionTime: metav1.NewTime(c.Clock)})
				})
				evicted.CreationTimestamp = created
				c.See(evicted)
				if i%2 == 0 { // else it goes after the next one has come
					c.Gone(evicted)
				}
				c.See(pod(i + 1))
				c.Gone(evicted)
			}
			last := c.World.Pod(withUID(&corev1.Pod{}, len(x.leaves)).UID)
			if last.Displaced != x.want || last.Fleeing {
				t.Errorf("displaced %d times, fleeing: %t, want %d", last.Displaced, last.Fleeing, x.want)
			}
		})
	}
}

func withUID(p *corev1.Pod, i int) *corev1.Pod {
	p.UID = types.UID(fmt.Sprint("pod-", i))
	return p
}
