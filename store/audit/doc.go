// Package audit translates between decisions and Records, plans recorded decisions again, and tells in words
// what the log says.
//
// Guarantees: Decode reverses Encode for every known kind; Replay compares what the planners say now with
// what they said then, and lists every decision it could not replay, with the reason; nothing it says of
// one decision depends on another. Not guaranteed: that a Record was acted upon; outcomes are Records of their own.
// It reads the log and the stream through interfaces: no engine is imported here.
package audit
