package heads

import (
	"context"
	"crypto/ed25519"
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"time"

	"millwright/planner/ledger"
	"millwright/store"
)

// statement is what is signed.
func statement(logID string, h *ledger.SignedHead) []byte {
	return fmt.Appendf(nil, "millwright head 1\nlog %s\nrecord %d\nhash %s\ntime %s\n", logID, h.Seq, h.Hash, h.Time.UTC().Format(time.RFC3339Nano))
}

// Signer signs heads of one log with the key in a file, which is read each time: a key that is put in its
// place signs from then on.
type Signer struct{ path, logID string }

// NewSigner reads the key once, to see that it is one.
func NewSigner(path, logID string) (*Signer, error) {
	if _, err := privateKey(path); err != nil {
		return nil, fmt.Errorf("read signing key: %w", err)
	}
	return &Signer{path: path, logID: logID}, nil
}

// Sign signs a head at a time.
func (s *Signer) Sign(_ context.Context, head store.Head, now time.Time) (*ledger.SignedHead, error) {
	key, err := privateKey(s.path)
	if err != nil {
		return nil, fmt.Errorf("sign record %d: %w", head.Seq, err)
	}
	h := &ledger.SignedHead{Seq: head.Seq, Hash: hex.EncodeToString(head.Hash[:]), Time: now.UTC(), Key: keyOf(key.Public().(ed25519.PublicKey)).ID}
	h.Signature = base64.StdEncoding.EncodeToString(ed25519.Sign(key, statement(s.logID, h)))
	return h, nil
}
