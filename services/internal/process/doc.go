// Package process is what all Millwright processes share: settings from flags and environment, logger,
// metrics and health endpoints, leader election, the step loop, and the order of start and stop.
//
// Guarantees: Run blocks until everything it started has ended. It stops in reverse order of start: steps,
// effects (which get DrainTimeout to end), leadership, folding, then what Config.Close closes (bus, log,
// embedded servers), health and metrics servers last. Not guaranteed: that this process is the only active
// one. Appends are fenced by the lease; see store.Elector.
package process
