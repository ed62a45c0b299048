// Package retention keeps the event log small and quick to start from: it writes checkpoints of the Ledger,
// forgets aggregates of what no longer exists, archives and compacts. It runs beside the lifecycle service,
// in whichever process leads that.
//
// Guarantees: every append is fenced by the leadership it runs under; a crash at any point loses nothing and
// is made up for by the next round, here or in the successor. Not guaranteed: that anything happens in time.
// A round that fails is tried again. Test with Keeper.Round, over any log.
package retention
