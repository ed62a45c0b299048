package heads

import (
	"context"
	"crypto/ed25519"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"time"

	"millwright/planner/ledger"
	"millwright/store"
)

// KeyService has an Ed25519 key that never leaves it.
type KeyService interface {
	PublicKey(ctx context.Context) (ed25519.PublicKey, error)
	// Sign returns the signature of a message, which is not hashed before.
	Sign(ctx context.Context, message []byte) ([]byte, error)
}

// remoteTimeout bounds a signature, with all repetitions: nobody waits longer for it.
const remoteTimeout = 10 * time.Second

// RemoteSigner signs heads of one log with a key that somebody else keeps.
type RemoteSigner struct {
	service KeyService
	logID   string
}

// NewRemoteSigner makes no call.
func NewRemoteSigner(service KeyService, logID string) *RemoteSigner {
	return &RemoteSigner{service: service, logID: logID}
}

var errWrongSignature = errors.New("the answer is no signature of it by this key")

// Sign signs a head at a time, or says within remoteTimeout why it did not. What the service answers is
// verified.
func (s *RemoteSigner) Sign(ctx context.Context, head store.Head, now time.Time) (*ledger.SignedHead, error) {
	ctx, cancel := context.WithTimeout(ctx, remoteTimeout)
	defer cancel()
	public, err := s.service.PublicKey(ctx)
	if err != nil {
		return nil, fmt.Errorf("sign record %d: %w", head.Seq, err)
	}
	h := &ledger.SignedHead{Seq: head.Seq, Hash: hex.EncodeToString(head.Hash[:]), Time: now.UTC(), Key: keyOf(public).ID}
	message := statement(s.logID, h)
	signature, err := s.service.Sign(ctx, message)
	if err != nil {
		return nil, fmt.Errorf("sign record %d: %w", head.Seq, err)
	}
	if !ed25519.Verify(public, message, signature) {
		return nil, fmt.Errorf("sign record %d: %w", head.Seq, errWrongSignature)
	}
	h.Signature = base64.StdEncoding.EncodeToString(signature)
	return h, nil
}
