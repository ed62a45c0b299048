package e2e

import (
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"io"
	"net"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/util/retry"
	"k8s.io/utils/ptr"

	"millwright/tools/clustertest"
	"millwright/tools/stack"
)

// certManager is the API group of cert-manager.
const certManager = "cert-manager.io"

var certificateResource = schema.GroupVersionResource{Group: certManager, Version: "v1", Resource: "certificates"}

// certManagerDir is the module with cert-manager: the controllers that issue and renew, webhook and
// cainjector.
func certManagerDir() string {
	return filepath.Join(clustertest.Root(), "tools/e2e/testdata/certmanager")
}

// issued is a chart whose certificates a running cert-manager issues.
type issued struct {
	*chartServers
	certificates dynamic.ResourceInterface
}

// TestCertificatesByCertManager: with certManager.enabled a running cert-manager, whose webhook validates
// what the chart asks for, issues it, etcd, NATS and the services talk to each other by it, and go on while
// all of it is renewed.
func TestCertificatesByCertManager(t *testing.T) {
	cluster := clustertest.Start(t)
	startCertManager(t, cluster)
	i := &issued{chartServers: installServers(t, cluster, "mode: distributed\nconsole: {enabled: false}\ncertManager: {enabled: true}\n")}
	i.certificates = dynamic.NewForConfigOrDie(cluster.Config).Resource(certificateResource).Namespace(i.namespace)
	i.ready()
	e := i.start("--issued")
	e.apply(defaultClass)
	e.apply(defaultPool)
	e.deploy("web", 1, "1", "1Gi")
	e.running("web", 1)
	i.renewed()
	i.restarted()
	e.scale("web", 3)
	e.running("web", 3)
	e.scale("web", 0)
	e.clean()
	e.sound()
	i.strangersAreRefused()
}

// startCertManager builds it, installs its CRDs and runs it.
func startCertManager(t *testing.T, cluster *clustertest.Cluster) {
	t.Helper()
	program := filepath.Join(t.TempDir(), "certmanager")
	for _, args := range [][]string{{"build", "-o", program, "."}, {"list", "-m", "-f", "{{.Dir}}", "github.com/cert-manager/cert-manager"}} {
		cmd := exec.CommandContext(t.Context(), "go", args...)
		cmd.Dir = certManagerDir()
		out, err := cmd.Output()
		if err != nil {
			t.Fatalf("go %s: %v", strings.Join(args, " "), err)
		}
		if dir := strings.TrimSpace(string(out)); dir != "" {
			files, err := filepath.Glob(filepath.Join(dir, "deploy/crds/*.yaml"))
			if err != nil || len(files) < 6 {
				t.Fatalf("CRDs of cert-manager: %v, %v", files, err)
			}
			if err := clustertest.InstallCRDFiles(t.Context(), cluster.Config, files...); err != nil {
				t.Fatal(err)
			}
		}
	}
	port, err := stack.FreePort()
	if err != nil {
		t.Fatal(err)
	}
	askWebhook(t, cluster, port)
	runProcess(t, "cert-manager", filepath.Join(t.TempDir(), "cert-manager.log"),
		exec.Command(program, "--kubeconfig", cluster.Kubeconfig, "--webhook-port", fmt.Sprint(port)))
	validates(t, cluster)
}

// askWebhook has the API server ask cert-manager's webhook, as its chart does, with a CA that the cainjector
// is to fill in.
func askWebhook(t *testing.T, cluster *clustertest.Cluster, port int) {
	t.Helper()
	kube := kubernetes.NewForConfigOrDie(cluster.Config)
	if _, err := kube.CoreV1().Namespaces().Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "cert-manager"}}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	meta := metav1.ObjectMeta{Name: "cert-manager-webhook", Annotations: map[string]string{"cert-manager.io/inject-ca-from-secret": "cert-manager/cert-manager-webhook-ca"}}
	client := func(path string) admissionv1.WebhookClientConfig {
		return admissionv1.WebhookClientConfig{URL: ptr.To(fmt.Sprintf("https://localhost:%d%s", port, path))}
	}
	rule := func(resource string, operations ...admissionv1.OperationType) []admissionv1.RuleWithOperations {
		return []admissionv1.RuleWithOperations{{Operations: operations, Rule: admissionv1.Rule{APIGroups: []string{certManager}, APIVersions: []string{"v1"}, Resources: []string{resource}}}}
	}
	validating := &admissionv1.ValidatingWebhookConfiguration{ObjectMeta: meta, Webhooks: []admissionv1.ValidatingWebhook{{Name: "webhook.cert-manager.io",
		Rules: rule("*/*", admissionv1.Create, admissionv1.Update), AdmissionReviewVersions: []string{"v1"}, FailurePolicy: ptr.To(admissionv1.Fail),
		SideEffects: ptr.To(admissionv1.SideEffectClassNone), ClientConfig: client("/validate")}}}
	mutating := &admissionv1.MutatingWebhookConfiguration{ObjectMeta: meta, Webhooks: []admissionv1.MutatingWebhook{{Name: "webhook.cert-manager.io",
		Rules: rule("certificaterequests", admissionv1.Create), AdmissionReviewVersions: []string{"v1"}, FailurePolicy: ptr.To(admissionv1.Fail),
		SideEffects: ptr.To(admissionv1.SideEffectClassNone), ClientConfig: client("/mutate")}}}
	if _, err := kube.AdmissionregistrationV1().ValidatingWebhookConfigurations().Create(t.Context(), validating, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	if _, err := kube.AdmissionregistrationV1().MutatingWebhookConfigurations().Create(t.Context(), mutating, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
}

// validates waits until the webhook refuses a Certificate that the CRD alone would take: one that is renewed
// before it begins.
func validates(t *testing.T, cluster *clustertest.Cluster) {
	t.Helper()
	certificates := dynamic.NewForConfigOrDie(cluster.Config).Resource(certificateResource).Namespace(metav1.NamespaceDefault)
	wrong := &unstructured.Unstructured{Object: map[string]any{"apiVersion": certManager + "/v1", "kind": "Certificate", "metadata": map[string]any{"name": "wrong"},
		"spec": map[string]any{"secretName": "wrong", "commonName": "wrong", "duration": "2h", "renewBefore": "3h", "issuerRef": map[string]any{"name": "none"}}}}
	deadline := time.Now().Add(convergence)
	for {
		_, err := certificates.Create(t.Context(), wrong, metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
		if err != nil && strings.Contains(err.Error(), "denied the request") && strings.Contains(err.Error(), "spec.renewBefore") {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("cert-manager's webhook does not refuse what is wrong: %v", err)
		}
		time.Sleep(200 * time.Millisecond)
	}
}

// wanted is what a Certificate asks for.
type wanted struct {
	Spec struct {
		SecretName, CommonName string
		DNSNames, IPAddresses  []string
		IsCA                   bool
	}
	Status struct {
		Revision   int
		Conditions []metav1.Condition
	}
}

// list the Certificates of the chart.
func (i *issued) list() map[string]wanted {
	i.Helper()
	list, err := i.certificates.List(i.Context(), metav1.ListOptions{})
	if err != nil {
		i.Fatal(err)
	}
	all := map[string]wanted{}
	for _, o := range list.Items {
		data, err := json.Marshal(o.Object)
		if err != nil {
			i.Fatal(err)
		}
		var w wanted
		if err := json.Unmarshal(data, &w); err != nil {
			i.Fatal(err)
		}
		all[o.GetName()] = w
	}
	return all
}

// ready waits until every Certificate is, and looks at the Secrets: names, CA, key.
func (i *issued) ready() {
	i.Helper()
	i.until("all Certificates are ready", func() string {
		all := i.list()
		for name, w := range all {
			if !slices.ContainsFunc(w.Status.Conditions, func(c metav1.Condition) bool { return c.Type == "Ready" && c.Status == metav1.ConditionTrue }) {
				return fmt.Sprintf("%s: %+v", name, w.Status.Conditions)
			}
		}
		if want := 1 + 2 + 1 + 7; len(all) != want { // the CA, two servers, etcd's root, the services, the console and the export
			return fmt.Sprintf("there are %d, not %d", len(all), want)
		}
		return ""
	})
	for name, w := range i.list() {
		leaf, roots := i.secret(w.Spec.SecretName)
		slices.Sort(w.Spec.DNSNames)
		slices.Sort(leaf.DNSNames)
		if leaf.Subject.CommonName != w.Spec.CommonName || !slices.Equal(leaf.DNSNames, w.Spec.DNSNames) || len(leaf.IPAddresses) != len(w.Spec.IPAddresses) {
			i.Errorf("%s is for %s, %v, %v, not for %+v", name, leaf.Subject.CommonName, leaf.DNSNames, leaf.IPAddresses, w.Spec)
		}
		if _, err := leaf.Verify(x509.VerifyOptions{Roots: roots, KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageAny}}); err != nil {
			i.Errorf("%s: %v", name, err)
		}
	}
}

// secret returns the certificate in a Secret, and the CAs beside it.
func (i *issued) secret(name string) (*x509.Certificate, *x509.CertPool) {
	i.Helper()
	secret, err := i.kube.CoreV1().Secrets(i.namespace).Get(i.Context(), name, metav1.GetOptions{})
	if err != nil {
		i.Fatal(err)
	}
	roots := x509.NewCertPool()
	block, _ := pem.Decode(secret.Data[corev1.TLSCertKey])
	if block == nil || !roots.AppendCertsFromPEM(secret.Data["ca.crt"]) {
		i.Fatalf("secret %s holds no certificate with its CA", name)
	}
	leaf, err := x509.ParseCertificate(block.Bytes)
	if err != nil {
		i.Fatal(err)
	}
	return leaf, roots
}

// renewed has cert-manager renew every certificate but the CA's, as cmctl does, and gives them to the
// processes as the kubelet would. etcd serves its own from then on; NATS does when it is restarted.
func (i *issued) renewed() {
	i.Helper()
	before, announced := i.list(), i.announced()
	serials := map[string]string{}
	for name, w := range before {
		if w.Spec.IsCA {
			continue
		}
		leaf, _ := i.secret(w.Spec.SecretName)
		serials[name] = leaf.SerialNumber.String()
		if err := retry.RetryOnConflict(retry.DefaultRetry, func() error { return i.renew(name) }); err != nil {
			i.Fatal(err)
		}
	}
	i.until("all certificates are renewed", func() string {
		for name, w := range i.list() {
			if w.Status.Revision <= before[name].Status.Revision && !w.Spec.IsCA {
				return fmt.Sprintf("%s is of revision %d", name, w.Status.Revision)
			}
		}
		return ""
	})
	for name, serial := range serials {
		secret := before[name].Spec.SecretName
		if leaf, _ := i.secret(secret); leaf.SerialNumber.String() == serial {
			i.Errorf("%s is the certificate that it was", name)
		}
		i.fetch(secret)
	}
	leaf, _ := i.secret("millwright-etcd-server")
	for _, ports := range i.ports["etcd"] {
		if served := i.served(ports[0]); served.SerialNumber.Cmp(leaf.SerialNumber) != 0 {
			i.Error("etcd still serves the certificate that it had")
		}
	}
	i.keepCertificates("--issued") // sooner than the one that runs looks again
	i.until("the pods of NATS are to be restarted", func() string {
		if i.announced() == announced {
			return "nothing is announced"
		}
		return ""
	})
}

// announced is what has the controller of the StatefulSet restart the pods of NATS when it changes.
func (i *issued) announced() string {
	i.Helper()
	set, err := i.kube.AppsV1().StatefulSets(i.namespace).Get(i.Context(), "millwright-nats", metav1.GetOptions{})
	if err != nil {
		i.Fatal(err)
	}
	return set.Spec.Template.Annotations["millwright.sh/certificates"]
}

// restarted restarts the members of NATS one by one, as that controller does: each serves the new certificate
// when it is back.
func (i *issued) restarted() {
	i.Helper()
	want, _ := i.secret("millwright-nats-server")
	for member, ports := range i.ports["nats"] {
		if served, err := i.servedByNATS(ports[0]); err != nil || served.SerialNumber.Cmp(want.SerialNumber) == 0 {
			i.Fatalf("NATS reads its certificate anew by itself, so nobody has to restart it: %v", err)
		}
		cmd := i.members[fmt.Sprintf("nats-%d", member)]
		if err := cmd.Process.Signal(syscall.SIGTERM); err != nil {
			i.Fatal(err)
		}
		_ = cmd.Wait()
		i.serve("nats", member)
		i.until("the restarted member is healthy", func() string {
			if err := i.healthy(member); err != nil {
				return err.Error()
			}
			return ""
		})
		if served, err := i.servedByNATS(ports[0]); err != nil || served.SerialNumber.Cmp(want.SerialNumber) != 0 {
			i.Errorf("NATS still serves the certificate that it had: %v", err)
		}
	}
}

// servedByNATS is the certificate of a member of NATS, which says something before it begins with TLS.
func (i *issued) servedByNATS(port int) (*x509.Certificate, error) {
	conn, err := net.DialTimeout("tcp", fmt.Sprintf("127.0.0.1:%d", port), 10*time.Second)
	if err != nil {
		return nil, err
	}
	defer conn.Close()
	if err := conn.SetDeadline(time.Now().Add(10 * time.Second)); err != nil {
		return nil, err
	}
	for read := make([]byte, 1); read[0] != '\n'; {
		if _, err := io.ReadFull(conn, read); err != nil {
			return nil, err
		}
	}
	in := filepath.Join(i.dir, "millwright-client-lifecycle")
	own, err := tls.LoadX509KeyPair(filepath.Join(in, "tls.crt"), filepath.Join(in, "tls.key"))
	if err != nil {
		return nil, err
	}
	_, roots := i.secret("millwright-client-lifecycle")
	client := tls.Client(conn, &tls.Config{RootCAs: roots, ServerName: "127.0.0.1", Certificates: []tls.Certificate{own}, MinVersion: tls.VersionTLS12})
	if err := client.Handshake(); err != nil {
		return nil, err
	}
	return client.ConnectionState().PeerCertificates[0], nil
}

// renew has cert-manager issue a certificate again.
func (i *issued) renew(name string) error {
	o, err := i.certificates.Get(i.Context(), name, metav1.GetOptions{})
	if err != nil {
		return err
	}
	conditions, _, err := unstructured.NestedSlice(o.Object, "status", "conditions")
	if err != nil {
		return err
	}
	conditions = append(conditions, map[string]any{"type": "Issuing", "status": "True", "reason": "ManuallyTriggered", "message": "asked for by a test",
		"lastTransitionTime": time.Now().UTC().Format(time.RFC3339)})
	if err := unstructured.SetNestedSlice(o.Object, conditions, "status", "conditions"); err != nil {
		return err
	}
	_, err = i.certificates.UpdateStatus(i.Context(), o, metav1.UpdateOptions{})
	return err
}

// served is the certificate of who listens on a port, for a client with lifecycle's renewed one.
func (i *issued) served(port int) *x509.Certificate {
	i.Helper()
	in := filepath.Join(i.dir, "millwright-client-lifecycle")
	own, err := tls.LoadX509KeyPair(filepath.Join(in, "tls.crt"), filepath.Join(in, "tls.key"))
	if err != nil {
		i.Fatal(err)
	}
	_, roots := i.secret("millwright-client-lifecycle")
	conn, err := tls.Dial("tcp", fmt.Sprintf("127.0.0.1:%d", port), &tls.Config{RootCAs: roots, Certificates: []tls.Certificate{own}, MinVersion: tls.VersionTLS12})
	if err != nil {
		i.Fatal(err)
	}
	defer conn.Close()
	return conn.ConnectionState().PeerCertificates[0]
}

// until waits for met to return "".
func (i *issued) until(what string, met func() string) {
	i.Helper()
	deadline := time.Now().Add(convergence)
	for {
		missing := met()
		if missing == "" {
			return
		}
		if time.Now().After(deadline) {
			i.Fatalf("%s: %s", what, missing)
		}
		time.Sleep(200 * time.Millisecond)
	}
}
