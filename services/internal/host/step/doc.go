// Package step gives services what they need of the process around them: valid Snapshots, appends, effects
// and KubeEvents. It implements service.Host over a store.Log and an events.Stream.
//
// Host is one service's view of a fold.State, which the services of a process share: its mode, its
// leadership, its own appends and its effects.
//
// Guarantees: a Snapshot satisfies DESIGN §2 for the requested freshness, or there is none. After Decide or
// Outcome returned a record, every Snapshot contains it; after an append of unknown outcome there is no
// Snapshot until it is known whether it was stored. No effect runs in shadow mode, without leadership, or
// twice at a time under one key. Not guaranteed: that effects run at all, or once. The next step starts them
// again from the log.
//
// A Snapshot consists of versions of World and Ledger, so nothing waits for a plan, a checkpoint or a status,
// and each may be kept for as long as needed.
package step
