package etcdlog

import (
	"encoding/hex"
	"fmt"
	"strconv"
	"strings"
	"time"

	"millwright/store"
	"millwright/store/record"
)

// keys of one cluster; FORMAT.md lists them.
type keys struct{ prefix string }

func newKeys(cluster string) keys { return keys{prefix: "/millwright/" + cluster + "/"} }

func (k keys) log() string                  { return k.prefix + "log/" }
func (k keys) record(seq uint64) string     { return fmt.Sprintf("%slog/%020d", k.prefix, seq) }
func (k keys) head() string                 { return k.prefix + "head" }
func (k keys) base() string                 { return k.prefix + "base" }
func (k keys) turns() string                { return k.prefix + "head/turn/" }
func (k keys) stream(name string) string    { return k.prefix + "stream/" + name }
func (k keys) control(name string) string   { return k.prefix + "control/" + name }
func (k keys) cursor(name string) string    { return k.prefix + "export/" + name }
func (k keys) leaders() string              { return k.prefix + "leader/" }
func (k keys) leader(service string) string { return k.prefix + "leader/" + service }
func (k keys) blob(hash string) string      { return k.prefix + "blob/" + hash + "/" }

func (k keys) chunk(hash string, n int) string { return fmt.Sprintf("%s%06d", k.blob(hash), n) }

// sequence of a log key.
func (k keys) sequence(key string) (uint64, error) {
	digits, ok := strings.CutPrefix(key, k.log())
	if seq, err := strconv.ParseUint(digits, 10, 64); ok && err == nil && len(digits) == 20 {
		return seq, nil
	}
	return 0, fmt.Errorf("key %q is not a record's: %w", key, store.ErrCorrupt)
}

// formatPlace is the value of the keys head and base: sequence, hash and time of a record.
func formatPlace(p record.Place) string {
	return fmt.Sprintf("%020d %s %d", p.Seq, hex.EncodeToString(p.Hash[:]), p.Time.UnixNano())
}

func parsePlace(value string) (record.Place, error) {
	var p record.Place
	fields := strings.Split(value, " ")
	if len(fields) != 3 {
		return p, fmt.Errorf("head %q: %w", value, store.ErrCorrupt)
	}
	seq, errSeq := strconv.ParseUint(fields[0], 10, 64)
	hash, errHash := hex.DecodeString(fields[1])
	at, errTime := strconv.ParseInt(fields[2], 10, 64)
	if errSeq != nil || errHash != nil || errTime != nil || len(hash) != len(p.Hash) {
		return p, fmt.Errorf("head %q: %w", value, store.ErrCorrupt)
	}
	p.Seq, p.Time = seq, time.Unix(0, at).UTC()
	copy(p.Hash[:], hash)
	return p, nil
}
