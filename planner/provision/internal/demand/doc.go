// Package demand compiles pending pods into what the planner asks places for: classes of equal pods, the
// levels of relaxation that each class has (scheduling §7.7), and the topology constraints that hold at each
// level.
//
// A class is made once for all pods with one PodClass, namespace and equal volumes. With three Deployments of
// which two differ in nothing but their name, 10,000 pods are two classes:
//
//	web-a, web-b   1 CPU                                   class 0, one level
//	cache          2 CPU, prefers zone a, spread by zone   class 1: level 0 in zone a, level 1 anywhere; both spread by zone
//
// Classes depend on the pods alone. After Topologies.Complete they do not change any more, with one
// exception: constraints remember which domains their group allows, and may lose domains that nodes taken
// away in a trial leave without support. What a search learns of classes is the search's own.
package demand
