// Package nodepool holds the rules about a NodePool that follow from the object and a few facts about it, and
// not from where pods go: whether it is served (support.go) and valid (validate.go), the hash of its template
// and what a change of its algorithm writes on NodeClaims (hash.go), what its budgets allow (budget.go), what
// its nodes sum up to (capacity.go), and the status it should have (status.go, registration.go).
//
// Guarantees: every function is pure, changes none of its arguments, and gives equal results for equal ones.
// Not guaranteed: that a NodePool which is valid here has an instance type; that is planner/provision's
// answer for pods.
//
// Rules from reference api §1.6, §3, §4, §8, lifecycle §11, disruption §5.
package nodepool
