// Package demand compiles pending pods into what the planner finds places for: classes of equal pods, the
// levels of relaxation of each class (scheduling §7.7), and the topology constraints that hold at each level.
//
// There is one class for all pods with one PodClass, namespace and equal volumes. With three Deployments of
// which two differ only in their name, 10,000 pods are two classes:
//
//	web-a, web-b   1 CPU                                   class 0, one level
//	cache          2 CPU, prefers zone a, spread by zone   class 1: level 0 in zone a, level 1 anywhere; both spread by zone
//
// Classes depend on the pods alone. After Topologies.Complete they no longer change, with one exception:
// constraints remember which domains their group allows, and may lose domains that no node supports any more
// after a trial removed nodes. What a search learns about classes belongs to the search.
package demand
