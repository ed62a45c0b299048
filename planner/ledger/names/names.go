// Package names computes the names and ids that follow from a log's id and a record: of NodeClaims, of
// commands, and what tags and annotations say of a record. Package ledger has all of them under the same
// names.
//
// Guarantees: pure functions, which give the same forever: what was named is found again by its name.
package names

import (
	"crypto/sha256"
	"encoding/base32"
	"encoding/hex"
	"fmt"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/types"
)

// poolNameMax is how much of a NodePool's name goes into a claim's, so that it fits into 63 characters.
const poolNameMax = 52

var base32hex = base32.HexEncoding.WithPadding(base32.NoPadding)

// hashOf joins the parts with a byte that occurs in none of them.
func hashOf(parts ...string) [sha256.Size]byte {
	return sha256.Sum256([]byte(strings.Join(parts, "\x00")))
}

func shortHash(n int, parts ...string) string {
	sum := hashOf(parts...)
	return strings.ToLower(base32hex.EncodeToString(sum[:]))[:n]
}

// ClaimName is the name of the index-th claim that record seq plans: "<pool>-<10 characters>".
func ClaimName(logID, nodePool string, seq uint64, index int) string {
	suffix := shortHash(10, "claim", logID, nodePool, strconv.FormatUint(seq, 10), strconv.Itoa(index))
	prefix := nodePool
	if len(prefix) > poolNameMax {
		prefix = strings.TrimRight(prefix[:poolNameMax], "-.")
	}
	return prefix + "-" + suffix
}

// CommandID is the id of the command that record seq starts.
func CommandID(logID string, seq uint64) string {
	return shortHash(12, "command", logID, strconv.FormatUint(seq, 10))
}

// ClientToken is EC2's idempotency token of a launch attempt: 32 hex digits.
func ClientToken(logID string, uid types.UID, attempt int) string {
	sum := hashOf("token", logID, string(uid), strconv.Itoa(attempt))
	return hex.EncodeToString(sum[:16])
}

// LaunchTag is the value of the tag millwright.sh/launch.
func LaunchTag(logID string, uid types.UID, attempt int) string {
	return fmt.Sprintf("%s/%s/%d", logID, uid, attempt)
}

// RecordAnnotation is the value of the annotation millwright.sh/record.
func RecordAnnotation(logID string, seq uint64) string {
	return fmt.Sprintf("%s/%d", logID, seq)
}

// Replaced are the names that a log has in the place of computed ones, by those: in a log whose names were
// replaced by pseudonyms (store/audit/pseudonyms) a computed name is that of the original, replaced like any
// other. Nil in all other logs. It is never changed.
type Replaced map[string]string

// Of is the name that the log has for a computed one.
func (r Replaced) Of(computed string) string {
	if name, ok := r[computed]; ok {
		return name
	}
	return computed
}

// ParseRecordAnnotation reverses RecordAnnotation.
func ParseRecordAnnotation(value string) (logID string, seq uint64, ok bool) {
	id, text, found := strings.Cut(value, "/")
	if !found {
		return "", 0, false
	}
	n, err := strconv.ParseUint(text, 10, 64)
	return id, n, err == nil
}
