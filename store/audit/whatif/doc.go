// Package whatif answers what would have been decided instead of what is on record, had a NodePool, a class,
// a policy, a price or an option been another one.
//
// Each decision is planned again by itself, on the Snapshot that it was taken on, with the change laid over
// it. It is no simulation: what would have followed from the other decision is not followed. The next
// decision's Snapshot is again one of what really happened, so that a difference never grows beyond one
// decision, and the sums over many decisions are of decisions that exclude each other in part. The change
// counts as if it had always been in force: nodes do not drift by it, and what EC2 reported about a class is
// as it was recorded.
//
// Without a change every decision comes out as it was recorded (audit.Replay proves that); so every
// difference is due to the change. Callers: millctl replay, the console. Test with a recording.
package whatif
