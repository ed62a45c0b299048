package heads

import (
	"crypto/ed25519"
	"crypto/sha256"
	"crypto/x509"
	"encoding/hex"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"os"
)

// fileBytesMax bounds a file of keys.
const fileBytesMax = 1 << 16

// Key verifies signatures.
type Key struct {
	// ID is a hash of the key, as signatures name it.
	ID     string
	public ed25519.PublicKey
}

func keyOf(public ed25519.PublicKey) Key {
	sum := sha256.Sum256(public)
	return Key{ID: hex.EncodeToString(sum[:8]), public: public}
}

func blocks(path string) (list []*pem.Block, err error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, fileBytesMax))
	if err != nil {
		return nil, err
	}
	for block, rest := pem.Decode(data); block != nil; block, rest = pem.Decode(rest) {
		list = append(list, block)
	}
	return list, nil
}

// PublicKeys reads the Ed25519 keys of a PEM file (PUBLIC KEY), of which there may be several: each key that
// ever signed the log is needed.
func PublicKeys(path string) (keys []Key, err error) {
	list, err := blocks(path)
	if err != nil {
		return nil, fmt.Errorf("read public keys: %w", err)
	}
	for _, block := range list {
		parsed, err := x509.ParsePKIXPublicKey(block.Bytes)
		if err != nil {
			return nil, fmt.Errorf("read public keys: %s: %s: %w", path, block.Type, err)
		}
		public, ok := parsed.(ed25519.PublicKey)
		if !ok {
			return nil, fmt.Errorf("read public keys: %s holds a %T, want Ed25519", path, parsed)
		}
		keys = append(keys, keyOf(public))
	}
	if len(keys) == 0 {
		return nil, fmt.Errorf("read public keys: %s holds none in PEM", path)
	}
	return keys, nil
}

// privateKey reads the one Ed25519 key of a PEM file (PRIVATE KEY, PKCS #8).
func privateKey(path string) (ed25519.PrivateKey, error) {
	list, err := blocks(path)
	if err != nil {
		return nil, err
	}
	if len(list) != 1 {
		return nil, fmt.Errorf("%s holds %d keys in PEM, want one", path, len(list))
	}
	parsed, err := x509.ParsePKCS8PrivateKey(list[0].Bytes)
	if err != nil {
		return nil, errors.New(path + " holds no private key in PKCS #8") // the error could quote the key
	}
	key, ok := parsed.(ed25519.PrivateKey)
	if !ok {
		return nil, fmt.Errorf("%s holds a %T, want Ed25519", path, parsed)
	}
	return key, nil
}
