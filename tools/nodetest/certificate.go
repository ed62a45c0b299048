//go:build linux

package main

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"math/big"
	"os"
	"path/filepath"
	"time"

	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
)

// kubeletConfig writes the kubelet's kubeconfig: the node is a user of its own, by a certificate of the
// cluster's authority, and may do what the API server lets nodes do.
func (n *node) kubeletConfig(file string) error {
	pki := filepath.Join(n.cluster(), "pki")
	authority, err := decode(filepath.Join(pki, "ca.crt"), x509.ParseCertificate)
	if err != nil {
		return err
	}
	signer, err := decode(filepath.Join(pki, "ca.key"), x509.ParsePKCS8PrivateKey)
	if err != nil {
		return err
	}
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return fmt.Errorf("make key: %w", err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(time.Now().UnixNano()), NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(24 * time.Hour),
		Subject:     pkix.Name{CommonName: "system:node:" + nodeName, Organization: []string{"system:nodes"}},
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}, KeyUsage: x509.KeyUsageDigitalSignature,
	}
	cert, err := x509.CreateCertificate(rand.Reader, template, authority, key.Public(), signer)
	if err != nil {
		return fmt.Errorf("make certificate: %w", err)
	}
	private, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return fmt.Errorf("encode key: %w", err)
	}
	config, err := clientcmd.LoadFromFile(n.kubeconfig())
	if err != nil {
		return fmt.Errorf("read kubeconfig: %w", err)
	}
	for _, c := range config.Contexts {
		c.AuthInfo = "node"
	}
	config.AuthInfos = map[string]*clientcmdapi.AuthInfo{"node": {
		ClientCertificateData: pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: cert}),
		ClientKeyData:         pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: private}),
	}}
	return clientcmd.WriteToFile(*config, file)
}

func decode[T any](file string, parse func([]byte) (T, error)) (parsed T, err error) {
	data, err := os.ReadFile(file)
	if err != nil {
		return parsed, err
	}
	block, _ := pem.Decode(data)
	if block == nil {
		return parsed, errors.New("read " + file + ": no PEM block")
	}
	return parse(block.Bytes)
}
