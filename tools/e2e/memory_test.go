package e2e

import (
	"fmt"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"millwright/tools/stack"
)

const (
	// classesAtATime come and go together, in classRounds rounds: 200 in all. The first rounds fill the
	// caches that have a limit.
	classesAtATime = 20
	classRounds    = 10
	warmRounds     = 3
	// heapGrowthMax is what the rounds after the warm-up may add to the heap. A class that is never forgotten
	// costs at least 0.4 MB, so that 140 of them would be four times as much.
	heapGrowthMax = 14 << 20
)

// NodeClasses and NodePools that come and go leave no memory behind, however much they differ.
func TestNodeClassesThatComeAndGoLeaveNoMemory(t *testing.T) {
	e := start(t, func(o *stack.Options) { o.MillwrightArgs = append(o.MillwrightArgs, "--enable-profiling") })
	var before int64
	for round := range classRounds {
		for i := range classesAtATime {
			e.apply(passingClass(round*classesAtATime + i))
			e.apply(strings.NewReplacer("name: default", fmt.Sprintf("name: passing-%d", i)).Replace(defaultPool))
		}
		for i := range classesAtATime {
			e.hasCondition(nodeClasses, fmt.Sprintf("passing-%d", i), "Ready", "True", "")
		}
		for i := range classesAtATime {
			name := fmt.Sprintf("passing-%d", i)
			if err := e.dyn.Resource(nodePools).Delete(e.Context(), name, metav1.DeleteOptions{}); err != nil {
				t.Fatal(err)
			}
			if err := e.dyn.Resource(nodeClasses).Delete(e.Context(), name, metav1.DeleteOptions{}); err != nil {
				t.Fatal(err)
			}
		}
		e.eventually("no class", func() string {
			list, err := e.dyn.Resource(nodeClasses).List(e.Context(), metav1.ListOptions{})
			if err != nil {
				return err.Error()
			}
			if n := len(list.Items); n > 0 {
				return fmt.Sprintf("%d are left", n)
			}
			return ""
		})
		if round == warmRounds-1 {
			before = e.heap(15, 0)
			t.Logf("heap after %d classes: %.1f MB", (round+1)*classesAtATime, float64(before)/1e6)
		}
	}
	after := e.heap(120, before+heapGrowthMax)
	t.Logf("heap after %d classes: %.1f MB", classRounds*classesAtATime, float64(after)/1e6)
	if after-before > heapGrowthMax {
		t.Errorf("%d classes and pools that came and went left %d bytes", (classRounds-warmRounds)*classesAtATime, after-before)
	}
}

// passingClass differs from the others in what planners read: pods per node and volumes.
func passingClass(i int) string {
	return strings.NewReplacer("name: default", fmt.Sprintf("name: passing-%d", i%classesAtATime)).Replace(defaultClass) +
		fmt.Sprintf("  kubelet: {maxPods: %d}\n  blockDeviceMappings: [{deviceName: /dev/xvda, rootVolume: true, ebs: {volumeSize: %dGi}}]\n", 20+i, 20+i)
}

// heap is the lowest of several measurements, two seconds apart, until one is at most enough. What is being
// built or compared holds tens of megabytes for a while after the last change, on a busy machine for a
// minute.
func (e *env) heap(times int, enough int64) (least int64) {
	for range times {
		if err := e.stack.CollectGarbage(e.Context(), "millwright"); err != nil {
			e.Fatal(err)
		}
		bytes := int64(e.metric("millwright", "go_memstats_heap_alloc_bytes"))
		if bytes > 0 && (least == 0 || bytes < least) {
			least = bytes
		}
		if least > 0 && least <= enough {
			break
		}
		time.Sleep(2 * time.Second)
	}
	return least
}
