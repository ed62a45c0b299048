// Package remedy finds the smallest changes after which a pod that fits nowhere would have a place: of one
// NodePool, or of the pod itself.
//
// Each is proven by a plan: the change is laid over the present World and the provisioner's planner is
// asked for the pod alone. What is found is therefore sufficient; it is minimal in that nothing that it
// consists of can be left out, and of one change before two. What no such change mends (an EC2NodeClass
// that is not ready, types that EC2 does not offer) is not found.
package remedy
