package trust

import (
	"bytes"
	"context"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
)

// Names that both sides know.
const (
	// ServiceLabel marks the Service of a console; the ConfigMap has the name of the Service.
	ServiceLabel = "millwright.sh/console"
	// PortName of the Service, and of the container's port.
	PortName = "https-console"
	// Audience of tokens that are for the console alone: nobody else takes them.
	Audience = "millwright.sh/console"
	// keyCertificates and keyServerName are the keys of the ConfigMap.
	keyCertificates = "ca.crt"
	keyServerName   = "server-name"
)

// anchorsMax bounds what is published: the own certificates, and those of other replicas and of pods before.
const anchorsMax = 8

// ErrNothing: no console has said yet by what it is known.
var ErrNothing = errors.New("no certificate is published")

// Anchors are what a server is known by.
type Anchors struct {
	// Certificates in PEM: authorities, or the server's own certificate.
	Certificates []byte
	// ServerName is a name that its certificate is for.
	ServerName string
}

// Publish writes anchors to a ConfigMap that is there. What other replicas have published stays, until it
// expires or there is too much of it. It reports whether there was anything to write.
func Publish(ctx context.Context, core kubernetes.Interface, namespace, name string, own Anchors, now time.Time) (changed bool, err error) {
	maps := core.CoreV1().ConfigMaps(namespace)
	m, err := maps.Get(ctx, name, metav1.GetOptions{})
	if err != nil {
		return false, fmt.Errorf("read ConfigMap %s/%s: %w", namespace, name, err)
	}
	merged := merge(own.Certificates, []byte(m.Data[keyCertificates]), now)
	if merged == m.Data[keyCertificates] && m.Data[keyServerName] == own.ServerName {
		return false, nil
	}
	if m.Data == nil {
		m.Data = map[string]string{}
	}
	m.Data[keyCertificates], m.Data[keyServerName] = merged, own.ServerName
	if _, err := maps.Update(ctx, m, metav1.UpdateOptions{}); err != nil {
		return false, fmt.Errorf("write ConfigMap %s/%s: %w", namespace, name, err)
	}
	return true, nil
}

// merge returns the published certificates with the own ones. If those are there already and nothing has
// expired, that is what was published, so that replicas do not take turns in writing.
func merge(own, published []byte, now time.Time) string {
	mine, theirs := parse(own), parse(published)
	list := make([]*x509.Certificate, 0, len(mine)+len(theirs))
	complete := true
	for _, c := range mine {
		if complete = complete && contains(theirs, c); !contains(list, c) {
			list = append(list, c)
		}
	}
	good := 0
	for _, c := range theirs {
		if now.Before(c.NotAfter) {
			good++
			if !contains(list, c) && len(list) < anchorsMax {
				list = append(list, c)
			}
		}
	}
	if complete && good == len(theirs) && good <= anchorsMax {
		return string(published)
	}
	var b strings.Builder
	for _, c := range list {
		b.Write(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: c.Raw}))
	}
	return b.String()
}

func contains(list []*x509.Certificate, c *x509.Certificate) bool {
	for _, x := range list {
		if bytes.Equal(x.Raw, c.Raw) {
			return true
		}
	}
	return false
}

// parse reads the certificates of a text; what is none is left out.
func parse(text []byte) (list []*x509.Certificate) {
	for {
		block, rest := pem.Decode(text)
		if block == nil {
			return list
		}
		if c, err := x509.ParseCertificate(block.Bytes); err == nil && block.Type == "CERTIFICATE" {
			list = append(list, c)
		}
		text = rest
	}
}

// Read returns what is published; ErrNothing if that is nothing.
func Read(ctx context.Context, core kubernetes.Interface, namespace, name string) (Anchors, error) {
	m, err := core.CoreV1().ConfigMaps(namespace).Get(ctx, name, metav1.GetOptions{})
	if err != nil {
		return Anchors{}, fmt.Errorf("read ConfigMap %s/%s: %w", namespace, name, err)
	}
	return read(m)
}

func read(m *corev1.ConfigMap) (Anchors, error) {
	a := Anchors{Certificates: []byte(m.Data[keyCertificates]), ServerName: m.Data[keyServerName]}
	if len(parse(a.Certificates)) == 0 || a.ServerName == "" {
		return Anchors{}, fmt.Errorf("%w in ConfigMap %s/%s", ErrNothing, m.Namespace, m.Name)
	}
	return a, nil
}

// Pool of the certificates.
func (a Anchors) Pool() *x509.CertPool {
	pool := x509.NewCertPool()
	for _, c := range parse(a.Certificates) {
		pool.AddCert(c)
	}
	return pool
}

// Of returns the anchors of a server that shows a chain, its own certificate first: the given authorities if
// they vouch for it, or else the chain itself.
func Of(chain []*x509.Certificate, authorities []byte) (Anchors, error) {
	if len(chain) == 0 {
		return Anchors{}, errors.New("there is no certificate")
	}
	a := Anchors{ServerName: serverName(chain[0])}
	if a.ServerName == "" {
		return Anchors{}, errors.New("the certificate is for no name")
	}
	intermediates := x509.NewCertPool()
	for _, c := range chain[1:] {
		intermediates.AddCert(c)
	}
	roots := Anchors{Certificates: authorities}.Pool()
	if _, err := chain[0].Verify(x509.VerifyOptions{Roots: roots, Intermediates: intermediates, CurrentTime: chain[0].NotBefore.Add(time.Second)}); err == nil {
		a.Certificates = authorities
		return a, nil
	}
	for _, c := range chain[:min(len(chain), anchorsMax)] {
		a.Certificates = append(a.Certificates, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: c.Raw})...)
	}
	return a, nil
}

// serverName is a name that a certificate is for; "" if it is for none.
func serverName(c *x509.Certificate) string {
	switch {
	case len(c.DNSNames) > 0:
		if rest, wildcard := strings.CutPrefix(c.DNSNames[0], "*."); wildcard {
			return "console." + rest
		}
		return c.DNSNames[0]
	case len(c.IPAddresses) > 0:
		return c.IPAddresses[0].String()
	}
	return ""
}
