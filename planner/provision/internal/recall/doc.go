// Package recall remembers what a plan was asked and answered, so that the same question need not be
// worked out again after a small change of the cluster.
//
// Guarantees: an answer is given back only if the solver would come to it again, step by step, with what
// there is now. For that everything that the solver's input holds is compared with what it held then; what
// is looked up while it runs is noted and looked up again. Nodes are the exception that makes it worth the
// while: one may differ in its pods and its free room if it had no room for any pod of the question and
// still has none, and if no term of topology of the question, nor one of the pods that came or went, is
// about the other side. Such a node refuses before anything else of it is looked at, and counts as before.
//
// Not guaranteed: that whatever could be given back is. Questions with planned claims, with pods that an
// earlier verdict has put somewhere, or after a node came or went are worked out again.
//
// It is for package provision alone; a test there compares with answers that were worked out.
package recall
