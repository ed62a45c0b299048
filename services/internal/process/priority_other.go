//go:build !linux

package process

// LowerPriority does nothing here.
func LowerPriority() error { return nil }
