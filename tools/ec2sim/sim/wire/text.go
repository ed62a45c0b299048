package wire

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"strings"
	"time"
)

// Linux is the platform of all images.
const Linux = "Linux/UNIX"

// Stamp is a time as EC2 writes it.
func Stamp(t time.Time) string { return t.UTC().Format("2006-01-02T15:04:05.000Z") }

// LastSegment is what follows the last slash of an ARN or URL.
func LastSegment(arn string) string { return arn[strings.LastIndex(arn, "/")+1:] }

// ShortHash distinguishes texts with few characters.
func ShortHash(text string) string {
	sum := sha256.Sum256([]byte(text))
	return hex.EncodeToString(sum[:4])
}

// FixedID is an id that depends on the seed alone, so that a restarted account has the same network.
func FixedID(prefix, seed string) string {
	sum := sha256.Sum256([]byte(prefix + "/" + seed))
	return prefix + "-0" + hex.EncodeToString(sum[:8])
}

// NewID returns an id such as i-0123456789abcdef0.
func NewID(prefix string) string { return prefix + "-0" + RandomHex(8) }

// NewRequestID returns a random UUID.
func NewRequestID() string {
	h := RandomHex(16)
	return h[:8] + "-" + h[8:12] + "-" + h[12:16] + "-" + h[16:20] + "-" + h[20:]
}

// RandomHex returns random bytes as text.
func RandomHex(bytes int) string {
	buf := make([]byte, bytes)
	rand.Read(buf)
	return hex.EncodeToString(buf)
}
