package pki

import (
	"bytes"
	"crypto"
	"crypto/x509"
	"encoding/pem"
	"fmt"
)

// Keys of a Secret that holds an authority, and of one that holds a certificate.
const (
	KeyCA, KeyCAKey     = "ca.crt", "ca.key"
	keyNext, keyNextKey = "next-ca.crt", "next-ca.key"
	keyOld              = "old-ca.crt"
	KeyLeaf, KeyLeafKey = "tls.crt", "tls.key"
)

// DecodeAuthority reads the valid parts of a Secret; the rest counts as missing.
func DecodeAuthority(data map[string][]byte) Authority {
	return Authority{CA: decodePair(data[KeyCA], data[KeyCAKey]), Next: decodePair(data[keyNext], data[keyNextKey]), Old: decodeCertificates(data[keyOld])}
}

// DecodeLeaf reads a certificate from a Secret; nil if there is no valid one.
func DecodeLeaf(data map[string][]byte) *Pair { return decodePair(data[KeyLeaf], data[KeyLeafKey]) }

func decodePair(cert, key []byte) *Pair {
	certs := decodeCertificates(cert)
	block, _ := pem.Decode(key)
	if len(certs) == 0 || block == nil {
		return nil
	}
	parsed, err := x509.ParsePKCS8PrivateKey(block.Bytes)
	if err != nil {
		return nil
	}
	signer, ok := parsed.(crypto.Signer)
	if !ok {
		return nil
	}
	if public, ok := signer.Public().(interface{ Equal(crypto.PublicKey) bool }); !ok || !public.Equal(certs[0].PublicKey) {
		return nil
	}
	return &Pair{certs[0], signer}
}

func decodeCertificates(data []byte) []*x509.Certificate {
	var out []*x509.Certificate
	for {
		block, rest := pem.Decode(data)
		if block == nil {
			return out
		}
		if c, err := x509.ParseCertificate(block.Bytes); err == nil {
			out = append(out, c)
		}
		data = rest
	}
}

// EncodeInto adds the authority with its keys to the data of a Secret.
func (a Authority) EncodeInto(data map[string][]byte) error {
	if err := a.CA.encodeInto(data, KeyCA, KeyCAKey); err != nil {
		return err
	}
	if err := a.Next.encodeInto(data, keyNext, keyNextKey); err != nil {
		return err
	}
	var old bytes.Buffer
	for _, c := range a.Old {
		old.Write(Encode(c))
	}
	if old.Len() > 0 {
		data[keyOld] = old.Bytes()
	}
	return nil
}

// EncodeInto adds a certificate and its key to the data of a Secret of type kubernetes.io/tls.
func (p *Pair) EncodeInto(data map[string][]byte) error {
	return p.encodeInto(data, KeyLeaf, KeyLeafKey)
}

func (p *Pair) encodeInto(data map[string][]byte, cert, key string) error {
	if p == nil {
		return nil
	}
	der, err := x509.MarshalPKCS8PrivateKey(p.Key)
	if err != nil {
		return fmt.Errorf("encode key %s: %w", key, err)
	}
	data[cert], data[key] = Encode(p.Cert), pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der})
	return nil
}
