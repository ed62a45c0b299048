package apitest_test

import (
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"math/big"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"syscall"
	"testing"
	"time"

	apiextv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apiextclient "k8s.io/apiextensions-apiserver/pkg/client/clientset/clientset"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"millwright/tools/clustertest"
)

const (
	webhookSecret    = "millwright-webhook-cert"
	webhookNamespace = "kube-system"
)

// replica is one process of `millwright webhook`.
type replica struct {
	port, health int
	cmd          *exec.Cmd
	ended        chan error
}

// replicas of the webhook behind one address, as a Service has them.
type replicas struct {
	t       *testing.T
	bin     string
	cluster *clustertest.Cluster
	front   *front
	list    []*replica
}

// startWebhook runs two replicas until the test ends, and then expects them to stop on their own.
func startWebhook(t *testing.T, cluster *clustertest.Cluster) *replicas {
	t.Helper()
	bin, err := clustertest.Binary("millwright")
	if err != nil {
		t.Fatal(err)
	}
	w := &replicas{t: t, bin: bin, cluster: cluster, front: newFront(t)}
	for range 2 {
		w.list = append(w.list, &replica{port: freePort(t), health: freePort(t)})
	}
	t.Cleanup(func() {
		for i := range w.list {
			w.stop(i)
		}
	})
	for i := range w.list {
		w.start(i)
	}
	w.front.direct(w.list[0].port)
	return w
}

// start runs a replica and waits until it is ready.
func (w *replicas) start(i int) {
	w.t.Helper()
	r := w.list[i]
	log, err := os.OpenFile(filepath.Join(w.cluster.DataDir, fmt.Sprintf("webhook-%d.log", i)), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		w.t.Fatal(err)
	}
	defer log.Close()
	r.cmd = exec.Command(w.bin, "webhook", "--kubeconfig", w.cluster.Kubeconfig, "--metrics-port", "0", "--health-probe-port", fmt.Sprint(r.health),
		"--webhook-port", fmt.Sprint(r.port), "--webhook-url", w.front.url())
	r.cmd.Stdout, r.cmd.Stderr = log, log
	if err := r.cmd.Start(); err != nil {
		w.t.Fatal(err)
	}
	r.ended = make(chan error, 1)
	go func(cmd *exec.Cmd, ended chan error) { ended <- cmd.Wait() }(r.cmd, r.ended)
	eventually(w.t, "the webhook is ready", func(context.Context) error {
		resp, err := http.Get(fmt.Sprintf("http://127.0.0.1:%d/readyz", r.health))
		if err != nil {
			return err
		}
		defer resp.Body.Close()
		if resp.StatusCode != http.StatusOK {
			return errors.New(resp.Status)
		}
		return nil
	})
}

// stop ends a replica that runs.
func (w *replicas) stop(i int) {
	r := w.list[i]
	if r.cmd == nil {
		return
	}
	_ = r.cmd.Process.Signal(syscall.SIGTERM)
	if err := <-r.ended; err != nil {
		w.t.Errorf("webhook %d ended: %v", i, err)
	}
	r.cmd = nil
	if text, _ := os.ReadFile(filepath.Join(w.cluster.DataDir, fmt.Sprintf("webhook-%d.log", i))); w.t.Failed() {
		w.t.Logf("webhook %d:\n%s", i, text)
	}
}

// leaf is the certificate a replica serves.
func (w *replicas) leaf(t *testing.T, i int) *x509.Certificate {
	t.Helper()
	conn, err := tls.Dial("tcp", fmt.Sprintf("127.0.0.1:%d", w.list[i].port), &tls.Config{InsecureSkipVerify: true})
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	return conn.ConnectionState().PeerCertificates[0]
}

// front forwards connections to one replica at a time.
type front struct {
	listener net.Listener

	mu     sync.Mutex
	port   int
	opened int
	open   map[net.Conn]bool
}

func newFront(t *testing.T) *front {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	f := &front{listener: l, open: map[net.Conn]bool{}}
	var served sync.WaitGroup
	served.Go(func() {
		for {
			in, err := l.Accept()
			if err != nil {
				return
			}
			served.Go(func() { f.forward(in) })
		}
	})
	t.Cleanup(func() { l.Close(); f.direct(0); served.Wait() })
	return f
}

func (f *front) url() string { return "https://" + f.listener.Addr().String() }

// direct sends all that comes from now on to a port, and ends what goes elsewhere.
func (f *front) direct(port int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.port, f.opened = port, 0
	for c := range f.open {
		c.Close()
	}
}

// reached is how many connections were opened since the last direct.
func (f *front) reached() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.opened
}

func (f *front) forward(in net.Conn) {
	defer in.Close()
	f.mu.Lock()
	out, err := net.Dial("tcp", fmt.Sprintf("127.0.0.1:%d", f.port))
	if err != nil {
		f.mu.Unlock()
		return
	}
	f.opened++
	f.open[in], f.open[out] = true, true
	f.mu.Unlock()
	var copied sync.WaitGroup
	for _, pair := range [][2]net.Conn{{in, out}, {out, in}} {
		copied.Go(func() {
			_, _ = io.Copy(pair[0], pair[1])
			pair[0].Close()
		})
	}
	copied.Wait()
	f.mu.Lock()
	defer f.mu.Unlock()
	delete(f.open, in)
	delete(f.open, out)
}

// twoReplicas: both convert under one CA; one renews everything, and the other goes on; one ends, and the
// other goes on.
func (b *both) twoReplicas(t *testing.T, w *replicas) {
	core, err := kubernetes.NewForConfig(w.cluster.Config)
	if err != nil {
		t.Fatal(err)
	}
	ext, err := apiextclient.NewForConfig(w.cluster.Config)
	if err != nil {
		t.Fatal(err)
	}
	secrets := core.CoreV1().Secrets(webhookNamespace)
	secret, err := secrets.Get(t.Context(), webhookSecret, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	before := bundles(t, ext)
	if !bytes.Equal(before, secret.Data["ca.crt"]) {
		t.Errorf("the CRDs trust\n%s\nthe Secret has\n%s", before, secret.Data["ca.crt"])
	}
	if !w.leaf(t, 0).Equal(w.leaf(t, 1)) {
		t.Error("the replicas serve different certificates of one Secret")
	}
	for i := range w.list {
		b.convertedBy(t, w, i, ext)
	}
	if after := bundles(t, ext); !bytes.Equal(before, after) {
		t.Errorf("the CRDs were rewritten:\n%s\n%s", before, after)
	}

	// A CA has waited in the CRDs for its day, which has come: whoever looks first signs a certificate by it.
	next, key := newCA(t, time.Now().Add(-26*time.Hour))
	secret.Data["next-ca.crt"], secret.Data["next-ca.key"] = next, key
	if _, err := secrets.Update(t.Context(), secret, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	old := w.leaf(t, 1)
	w.front.direct(w.list[1].port)
	w.stop(0)
	w.start(0)
	renewed, err := secrets.Get(t.Context(), webhookSecret, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(renewed.Data["ca.crt"], next) || !bytes.Equal(renewed.Data["old-ca.crt"], secret.Data["ca.crt"]) {
		t.Errorf("the CA was not changed: %s", renewed.Data)
	}
	if got := bundles(t, ext); !bytes.Equal(got, append(bytes.Clone(next), secret.Data["ca.crt"]...)) {
		t.Errorf("the CRDs trust\n%s", got)
	}
	if w.leaf(t, 0).Equal(old) {
		t.Error("no certificate was signed by the new CA")
	}
	for _, i := range []int{1, 0, 1} {
		b.convertedBy(t, w, i, ext)
	}

	w.front.direct(w.list[1].port)
	w.stop(0)
	b.convertedBy(t, w, 1, ext)
	w.start(0)
	if got := bundles(t, ext); !bytes.Equal(got, append(bytes.Clone(next), secret.Data["ca.crt"]...)) {
		t.Errorf("after a restart the CRDs trust\n%s", got)
	}
}

// convertedBy has the API server convert by one replica alone, whose certificate the CRDs must trust.
func (b *both) convertedBy(t *testing.T, w *replicas, i int, ext apiextclient.Interface) {
	t.Helper()
	w.front.direct(w.list[i].port)
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(bundles(t, ext))
	if _, err := w.leaf(t, i).Verify(x509.VerifyOptions{Roots: roots, DNSName: "127.0.0.1"}); err != nil {
		t.Errorf("the CRDs do not trust replica %d: %v", i, err)
	}
	eventually(t, fmt.Sprintf("replica %d converts", i), func(ctx context.Context) error {
		// A list may come from a cache that was converted before.
		_, err := b.resource("v1beta1", "nodepools").Get(ctx, "beta", metav1.GetOptions{})
		if err == nil && w.front.reached() == 0 {
			return errors.New("nobody was asked")
		}
		return err
	})
}

// bundles returns what all three CRDs trust.
func bundles(t *testing.T, ext apiextclient.Interface) []byte {
	t.Helper()
	var bundle []byte
	for _, name := range crdNames {
		crd, err := ext.ApiextensionsV1().CustomResourceDefinitions().Get(t.Context(), name, metav1.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		if crd.Spec.Conversion == nil || crd.Spec.Conversion.Strategy != apiextv1.WebhookConverter {
			t.Fatalf("%s has no webhook", name)
		}
		got := crd.Spec.Conversion.Webhook.ClientConfig.CABundle
		if bundle != nil && !bytes.Equal(bundle, got) {
			t.Fatalf("%s trusts another CA", name)
		}
		bundle = got
	}
	return bundle
}

// newCA makes a CA of a past day, as the webhook does.
func newCA(t *testing.T, made time.Time) (cert, key []byte) {
	t.Helper()
	signer, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(made.UnixNano()), Subject: pkix.Name{CommonName: "millwright-webhook-ca"}, NotBefore: made, NotAfter: made.Add(2 * 365 * 24 * time.Hour),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign | x509.KeyUsageCRLSign,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, signer.Public(), signer)
	if err != nil {
		t.Fatal(err)
	}
	private, err := x509.MarshalPKCS8PrivateKey(signer)
	if err != nil {
		t.Fatal(err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: private})
}
