package ledger

import (
	"k8s.io/apimachinery/pkg/types"

	"millwright/planner/ledger/names"
)

// ClaimName is the name of the index-th claim that record seq plans: "<pool>-<10 characters>".
func ClaimName(logID, nodePool string, seq uint64, index int) string {
	return names.ClaimName(logID, nodePool, seq, index)
}

// CommandID is the id of the command that record seq starts.
func CommandID(logID string, seq uint64) string { return names.CommandID(logID, seq) }

// ClientToken is EC2's idempotency token of a launch attempt: 32 hex digits.
func ClientToken(logID string, uid types.UID, attempt int) string {
	return names.ClientToken(logID, uid, attempt)
}

// LaunchTag is the value of the tag millwright.sh/launch.
func LaunchTag(logID string, uid types.UID, attempt int) string {
	return names.LaunchTag(logID, uid, attempt)
}

// RecordAnnotation is the value of the annotation millwright.sh/record.
func RecordAnnotation(logID string, seq uint64) string { return names.RecordAnnotation(logID, seq) }

// ParseRecordAnnotation reverses RecordAnnotation.
func ParseRecordAnnotation(value string) (logID string, seq uint64, ok bool) {
	return names.ParseRecordAnnotation(value)
}

// ClaimName is the name in this log of the index-th claim that record seq plans.
func (l *state) ClaimName(nodePool string, seq uint64, index int) string {
	return l.replaced.Of(ClaimName(l.logID, nodePool, seq, index))
}

// CommandID is the id in this log of the command that record seq starts.
func (l *state) CommandID(seq uint64) string { return l.replaced.Of(CommandID(l.logID, seq)) }

// Replace lets the Ledger use other names for computed ones. Call it before anything is folded.
func Replace(l *Ledger, r names.Replaced) { l.replaced = r }
