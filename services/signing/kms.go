package signing

import (
	"context"
	"crypto/ed25519"
	"crypto/x509"
	"fmt"
	"sync"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/kms"
	"github.com/aws/aws-sdk-go-v2/service/kms/types"

	"millwright/store/audit/heads"
)

// KMS is a key in AWS KMS, of spec ECC_NIST_EDWARDS25519 and for SIGN_VERIFY. It is safe for concurrent use.
type KMS struct {
	client *kms.Client
	id     string

	mu     sync.Mutex
	public ed25519.PublicKey
}

var _ heads.KeyService = (*KMS)(nil)

// NewKMS names a key by its id, ARN or alias. It makes no call.
func NewKMS(sdk aws.Config, id string) *KMS { return &KMS{client: kms.NewFromConfig(sdk), id: id} }

// PublicKey implements heads.KeyService. A key of KMS never changes under its id, so it is asked for once;
// who points an alias at another key starts the process anew.
func (k *KMS) PublicKey(ctx context.Context) (ed25519.PublicKey, error) {
	k.mu.Lock()
	public := k.public
	k.mu.Unlock()
	if public != nil {
		return public, nil
	}
	answer, err := k.client.GetPublicKey(ctx, &kms.GetPublicKeyInput{KeyId: aws.String(k.id)})
	if err != nil {
		return nil, fmt.Errorf("get public key of KMS key %s: %w", k.id, err)
	}
	parsed, err := x509.ParsePKIXPublicKey(answer.PublicKey)
	if err != nil {
		return nil, fmt.Errorf("read public key of KMS key %s, of spec %s: %w", k.id, answer.KeySpec, err)
	}
	public, ok := parsed.(ed25519.PublicKey)
	if !ok {
		return nil, fmt.Errorf("KMS key %s is of spec %s, want ECC_NIST_EDWARDS25519", k.id, answer.KeySpec)
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	k.public = public
	return public, nil
}

// Sign implements heads.KeyService.
func (k *KMS) Sign(ctx context.Context, message []byte) ([]byte, error) {
	answer, err := k.client.Sign(ctx, &kms.SignInput{KeyId: aws.String(k.id), Message: message, MessageType: types.MessageTypeRaw,
		SigningAlgorithm: types.SigningAlgorithmSpecEd25519Sha512})
	if err != nil {
		return nil, fmt.Errorf("sign with KMS key %s: %w", k.id, err)
	}
	return answer.Signature, nil
}
