// Package audit translates between decisions and Records, plans recorded decisions again, and explains in
// words what the log says.
//
// Guarantees: Decode reverses Encode for every known kind; Replay compares what the planners decide now with
// what they decided then, and lists every decision it could not replay, with the reason; its results for one
// decision do not depend on another. Not guaranteed: that a Record was acted upon; outcomes are Records of
// their own. It reads the log and the stream through interfaces: it imports no storage engine.
package audit
