package demand

import (
	"millwright/planner/ledger"
	"millwright/planner/provision/internal/volume"
	"millwright/planner/requirement"
	"millwright/planner/resource"
	"millwright/planner/topology"
	"millwright/planner/world"
)

// Class is a set of pods that are equal to the planner: one PodClass, one namespace, and equal volumes. Once
// all classes of a plan are compiled and completed it no longer changes; what a search learns about it is
// kept elsewhere.
type Class struct {
	// Index numbers the classes of a plan in order of appearance; Request numbers those with equal requests.
	Index, Request int
	Pod            *world.PodClass
	namespace      string
	// Strict: nodeSelector and one required term; any one set suffices. No preferences, no volumes.
	Strict   []requirement.Set
	Topology classTopology
	// RepelsPeers: the pods must keep others off their node, by anti-affinity or spread.
	RepelsPeers bool
	Requests    resource.Vector
	Ports       []HostPort
	Volumes     *volume.Volumes
	// Levels from all preferences kept to none. Empty if the pods are invalid.
	Levels []*Level
	// Invalid is why the pods are not planned for at all.
	Invalid []ledger.Refusal
	// Ours is false if the pods asked not to run on our nodes.
	Ours bool
}

// Level is one step of relaxation (scheduling §7.7). A pod that prefers zone a, and prefers not to be with
// pods of its app, has three:
//
//	0: in zone a, away from the app's pods
//	1: in zone a                              affinity to pods is given up first
//	2: anywhere
type Level struct {
	Class *Class
	// Alternatives: any one suffices (ORed terms, times volume alternatives).
	Alternatives []*Alternative
	// StrictTaints: PreferNoSchedule taints count.
	StrictTaints bool
	// Constraints on the topology, and the same grouped by key; soft are those that lower levels drop.
	Constraints []*topology.Constraint
	Soft        []*topology.Constraint
	ByPlace     []*topology.Constraint
	ByKey       []Keyed
	// Exclusive are the groups of which a place must count no pod.
	Exclusive []*topology.Group
}

// Alternative is a conjunction of requirements, shared by all classes that demand the same.
type Alternative struct {
	Set requirement.Set
	Id  int
}
