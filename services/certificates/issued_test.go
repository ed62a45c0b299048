package certificates

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"io"
	"maps"
	"math/big"
	"net"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/rs/zerolog"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/yaml"

	"millwright/services/internal/pki"
)

// requested is what the chart asks cert-manager for.
type requested struct {
	Kind string
	Spec struct {
		SecretName, CommonName string
		DNSNames, IPAddresses  []string
		Usages                 []string
		IsCA                   bool
		Duration               metav1.Duration
		PrivateKey             struct{ Algorithm, Encoding string }
	}
}

// requests are the Certificates of the manifest, but for the CA.
func requests(t *testing.T) (list []requested) {
	t.Helper()
	data, err := os.ReadFile("../../deploy/manifests/cert-manager.yaml")
	if err != nil {
		t.Fatal(err)
	}
	d := yaml.NewYAMLOrJSONDecoder(bytes.NewReader(data), 4096)
	for {
		var r requested
		err := d.Decode(&r)
		if errors.Is(err, io.EOF) {
			return list
		}
		if err != nil {
			t.Fatal(err)
		}
		if r.Kind == "Certificate" && !r.Spec.IsCA {
			list = append(list, r)
		}
	}
}

// issuer signs what is requested, as cert-manager's issuer of kind CA does.
type issuer struct {
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
}

func newIssuer(t *testing.T, now time.Time) *issuer {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "platform"}, NotBefore: now, NotAfter: now.AddDate(10, 0, 0),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	cert, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	return &issuer{cert, key}
}

func (i *issuer) issue(t *testing.T, now time.Time, r requested) map[string][]byte {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(2), Subject: pkix.Name{CommonName: r.Spec.CommonName}, DNSNames: r.Spec.DNSNames,
		NotBefore: now, NotAfter: now.Add(r.Spec.Duration.Duration), KeyUsage: x509.KeyUsageDigitalSignature}
	for _, a := range r.Spec.IPAddresses {
		template.IPAddresses = append(template.IPAddresses, net.ParseIP(a))
	}
	for text, usage := range map[string]x509.ExtKeyUsage{"client auth": x509.ExtKeyUsageClientAuth, "server auth": x509.ExtKeyUsageServerAuth} {
		if slices.Contains(r.Spec.Usages, text) {
			template.ExtKeyUsage = append(template.ExtKeyUsage, usage)
		}
	}
	der, err := x509.CreateCertificate(rand.Reader, template, i.cert, key.Public(), i.key)
	if err != nil {
		t.Fatal(err)
	}
	kind, private := "EC PRIVATE KEY", []byte(nil)
	if private, err = x509.MarshalECPrivateKey(key); r.Spec.PrivateKey.Encoding == "PKCS8" {
		kind = "PRIVATE KEY"
		private, err = x509.MarshalPKCS8PrivateKey(key)
	}
	if err != nil {
		t.Fatal(err)
	}
	return map[string][]byte{pki.KeyCA: pki.Encode(i.cert), pki.KeyLeaf: pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}),
		pki.KeyLeafKey: pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: private})}
}

// issuedRig is a Keeper beside cert-manager, with everything issued that the chart asks for.
func issuedRig(t *testing.T, etcdMembers int) (*rig, *issuer) {
	t.Helper()
	r := newRig(t)
	r.registry = prometheus.NewRegistry()
	k, err := New(Config{Settings: Settings{Cluster: "c", Namespace: "kube-system", Prefix: "millwright", EtcdMembers: etcdMembers, NATSMembers: 3, Issued: true},
		Core: r.kube, Now: func() time.Time { return r.now }, Reliable: func() error { return r.off }, Logger: zerolog.Nop(), Registerer: r.registry})
	if err != nil {
		t.Fatal(err)
	}
	r.keeper = k
	i := newIssuer(t, r.now)
	for _, x := range requests(t) {
		s := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "kube-system", Name: x.Spec.SecretName}, Type: corev1.SecretTypeTLS, Data: i.issue(t, r.now, x)}
		if _, err := r.kube.CoreV1().Secrets("kube-system").Create(t.Context(), s, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	return r, i
}

// What the chart asks cert-manager for is what the pods of services, etcd and NATS need, and nothing else.
func TestTheChartAsksForTheCertificatesThatAreNeeded(t *testing.T) {
	r, _ := issuedRig(t, 3)
	needed := map[string]bool{}
	for _, w := range r.keeper.cfg.wanted() {
		needed[w.secret] = true
		if leaf, trusted, err := r.keeper.issued(t.Context(), w); err != nil || leaf == nil || len(trusted) == 0 {
			t.Errorf("%s: %v", w.secret, err)
		}
	}
	for _, x := range requests(t) {
		if !needed[x.Spec.SecretName] {
			t.Errorf("nobody needs %s", x.Spec.SecretName)
		}
	}
	if len(needed) != 3+len(Services) {
		t.Errorf("%d are needed", len(needed))
	}
}

// Beside cert-manager the Keeper makes passwords and says when certificates expire; it writes no certificate,
// also if one is about to end.
func TestIssuedCertificatesAreReadOnly(t *testing.T) {
	r, _ := issuedRig(t, 0)
	data := func() map[string]string {
		out := map[string]string{}
		list, err := r.kube.CoreV1().Secrets("kube-system").List(t.Context(), metav1.ListOptions{})
		if err != nil {
			t.Fatal(err)
		}
		for _, s := range list.Items {
			for key, value := range s.Data {
				out[s.Name+"/"+key] = string(value)
			}
		}
		return out
	}
	before := data()
	r.pass()
	if got, want := changed(before, data()), []string{"millwright-nats-users/reader", "millwright-nats-users/watcher"}; !slices.Equal(got, want) {
		t.Errorf("changed: %v", got)
	}
	if e := r.expiries(); len(e) != 1+len(Services) || !e["millwright-client-watcher"].Equal(r.now.Add(90*24*time.Hour)) {
		t.Errorf("%v", e)
	}
	before = data()
	r.now = r.now.Add(89 * 24 * time.Hour)
	r.pass()
	if after := data(); !maps.Equal(before, after) {
		t.Errorf("changed: %v", changed(before, after))
	}
}

// What is wrong with an issued certificate is said by the name of its Secret, and of all of them at once.
func TestWhatIsWrongWithIssuedCertificates(t *testing.T) {
	for name, c := range map[string]struct {
		change func(*rig, *issuer, *requested) map[string][]byte
		want   string
	}{
		"another common name": {func(r *rig, i *issuer, x *requested) map[string][]byte {
			x.Spec.CommonName = "somebody"
			return i.issue(r.T, r.now, *x)
		}, `common name is "somebody", not "watcher"`},
		"no client": {func(r *rig, i *issuer, x *requested) map[string][]byte {
			x.Spec.Usages = nil
			return i.issue(r.T, r.now, *x)
		}, "may not be used"},
		"no CA": {func(r *rig, i *issuer, x *requested) map[string][]byte {
			data := i.issue(r.T, r.now, *x)
			delete(data, pki.KeyCA)
			return data
		}, "ca.crt has no CA"},
		"another encoding of the key": {func(r *rig, i *issuer, x *requested) map[string][]byte {
			x.Spec.PrivateKey.Encoding = ""
			return i.issue(r.T, r.now, *x)
		}, "PKCS #8"},
		"expired": {func(r *rig, i *issuer, x *requested) map[string][]byte {
			return i.issue(r.T, r.now.AddDate(-1, 0, 0), *x)
		}, "is not valid now"},
	} {
		t.Run(name, func(t *testing.T) {
			r, i := issuedRig(t, 0)
			at := slices.IndexFunc(requests(t), func(x requested) bool { return x.Spec.SecretName == "millwright-client-watcher" })
			x := requests(t)[at]
			s := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "kube-system", Name: x.Spec.SecretName}, Data: c.change(r, i, &x)}
			if _, err := r.kube.CoreV1().Secrets("kube-system").Update(t.Context(), s, metav1.UpdateOptions{}); err != nil {
				t.Fatal(err)
			}
			if err := r.kube.CoreV1().Secrets("kube-system").Delete(t.Context(), "millwright-client-console", metav1.DeleteOptions{}); err != nil {
				t.Fatal(err)
			}
			err := r.keeper.pass(t.Context())
			if err == nil || !strings.Contains(err.Error(), "secret millwright-client-watcher: ") || !strings.Contains(err.Error(), c.want) ||
				!strings.Contains(err.Error(), "get secret millwright-client-console") {
				t.Errorf("%v", err)
			}
		})
	}
}
