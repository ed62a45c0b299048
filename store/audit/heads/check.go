package heads

import (
	"cmp"
	"context"
	"crypto/ed25519"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"millwright/planner/ledger"
	"millwright/store"
	"millwright/store/audit"
)

var (
	// ErrForged: a signature is not the key's, or the log has another record where it was signed.
	ErrForged = errors.New("the log is not the one that was signed")
	// ErrUnsigned: no head of the log is signed by one of the keys.
	ErrUnsigned = errors.New("no head of the log is signed")
)

// Log is what signatures are checked against; store.Log is one.
type Log interface {
	ID() string
	Read(ctx context.Context, from uint64, limit int) ([]store.Record, error)
}

// Checker checks the signed heads of one log whose hash chain is verified.
type Checker struct {
	log  Log
	keys map[string]Key
	// signed are the heads found, by the record that carries each.
	signed []carried
}

type carried struct {
	record uint64
	head   *ledger.SignedHead
}

// NewChecker returns a Checker that trusts the keys.
func NewChecker(log Log, keys []Key) *Checker {
	c := &Checker{log: log, keys: map[string]Key{}}
	for _, k := range keys {
		c.keys[k.ID] = k
	}
	return c
}

// Add takes the next record. ErrForged: it carries a signature that none of the keys made.
func (c *Checker) Add(rec store.Record) error {
	if ledger.Kind(rec.Kind) != ledger.KindLedgerCheckpoint {
		return nil
	}
	e, err := audit.Decode(rec)
	if err != nil {
		return err
	}
	if p, ok := e.Payload.(*ledger.LedgerCheckpoint); ok && p.Signed != nil {
		return c.AddHead(rec.Seq, p.Signed)
	}
	return nil
}

// AddHead takes the next signed head, by the record that carries it. Errors are as of Add.
func (c *Checker) AddHead(record uint64, h *ledger.SignedHead) error {
	if err := c.check(record, h); err != nil {
		return fmt.Errorf("record %d: signature of record %d: %w: %w", record, h.Seq, err, ErrForged)
	}
	c.signed = append(c.signed, carried{record, h})
	return nil
}

func (c *Checker) check(carrier uint64, h *ledger.SignedHead) error {
	key, known := c.keys[h.Key]
	if !known {
		return fmt.Errorf("key %s is none of those given", h.Key)
	}
	signature, err := base64.StdEncoding.DecodeString(h.Signature)
	if err != nil || !ed25519.Verify(key.public, statement(c.log.ID(), h), signature) {
		return fmt.Errorf("key %s did not make it", h.Key)
	}
	if h.Seq >= carrier {
		return errors.New("it is of a later record")
	}
	return nil
}

// Finish compares what was signed with the records that are there, and returns the newest signed head.
// Records before first were pruned. ErrForged: another record is there. ErrUnsigned: nothing was signed.
func (c *Checker) Finish(ctx context.Context, first uint64) (newest ledger.SignedHead, err error) {
	slices.SortFunc(c.signed, func(a, b carried) int { return cmp.Compare(a.head.Seq, b.head.Seq) })
	for _, s := range c.signed {
		if s.head.Seq < first {
			continue
		}
		if err := c.holds(ctx, s.head.Seq, s.head.Hash); err != nil {
			return newest, fmt.Errorf("signed by record %d: %w", s.record, err)
		}
		newest = *s.head
	}
	if newest.Seq == 0 {
		return newest, ErrUnsigned
	}
	return newest, nil
}

// Holds reports whether the log has the record that was noted elsewhere as SEQ:HASH. ErrForged: it has not.
func (c *Checker) Holds(ctx context.Context, noted string) error {
	number, hash, _ := strings.Cut(noted, ":")
	seq, err := strconv.ParseUint(number, 10, 64)
	if _, bad := hex.DecodeString(hash); err != nil || bad != nil || len(hash) != 64 {
		return fmt.Errorf("%q is no SEQ:HASH, such as millctl verify prints", noted)
	}
	return c.holds(ctx, seq, hash)
}

func (c *Checker) holds(ctx context.Context, seq uint64, hash string) error {
	page, err := c.log.Read(ctx, seq, 1)
	switch {
	case err != nil:
		return err
	case len(page) == 0 || page[0].Seq != seq:
		return fmt.Errorf("record %d is missing: %w", seq, ErrForged)
	case hex.EncodeToString(page[0].Hash[:]) != hash:
		return fmt.Errorf("record %d has the hash %x, and had %s: %w", seq, page[0].Hash, hash, ErrForged)
	}
	return nil
}
