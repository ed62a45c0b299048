// Package e2e tests Millwright end to end: real processes of Millwright, a real Kubernetes control plane, and
// the EC2 simulator behind the unmodified AWS SDK. Each test ends with the same checks: one launch per
// NodeClaim, nothing left over, hash chain intact, every decision replays.
//
// Run with `make e2e`; a single one with `go test ./tools/e2e -run TestName -v` after `make build`.
package e2e
