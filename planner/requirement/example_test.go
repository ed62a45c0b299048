package requirement_test

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"

	"millwright/planner/requirement"
)

// Two sets of requirements hold at once if for every key some value does.
func ExampleSet_Intersection() {
	pool := requirement.NewSet(
		requirement.In("topology.kubernetes.io/zone", "us-west-2a", "us-west-2b"),
		requirement.New("node.kubernetes.io/instance-type", corev1.NodeSelectorOpNotIn, "t2.nano"))
	pod := requirement.FromLabels(map[string]string{"topology.kubernetes.io/zone": "us-west-2b"})
	fmt.Println(pool.Intersection(pod).Get("topology.kubernetes.io/zone").Values())

	elsewhere := requirement.FromLabels(map[string]string{"topology.kubernetes.io/zone": "us-west-2c"})
	fmt.Println(pool.Intersection(elsewhere).Impossible())
	// Output:
	// [us-west-2b]
	// true
}
