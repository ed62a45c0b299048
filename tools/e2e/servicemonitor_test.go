package e2e

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/util/cert"
	"sigs.k8s.io/yaml"

	"millwright/tools/clustertest"
)

// prometheusToken is where the pods of Prometheus have the token of their account.
const prometheusToken = "/var/run/secrets/kubernetes.io/serviceaccount/token"

// TestPrometheusScrapesAsTheServiceMonitorSays: Prometheus' own scraper, with the settings that the chart's
// ServiceMonitor has for metrics that are not for everybody, is let in by its account's token; with the token
// of another account, or by another CA, it gets nothing.
func TestPrometheusScrapesAsTheServiceMonitorSays(t *testing.T) {
	t.Parallel()
	program := scraper(t)
	values := "mode: distributed\nwebhook: {enabled: true}\ncontroller: {metrics: {secure: true, tlsSecretName: metrics-tls}}\n"
	s := installServers(t, clustertest.Start(t), values)
	s.prometheusMayScrape()
	issued, strange := s.metricsSecret("metrics-tls"), s.metricsSecret("strange")
	verified, _ := s.serveMetrics("verified", "--metrics-tls-cert-file", filepath.Join(issued, "tls.crt"), "--metrics-tls-key-file", filepath.Join(issued, "tls.key"))
	own, _ := s.serveMetrics("own")
	byCA := s.endpoint(values)
	unverified := s.endpoint(strings.Replace(values, ", tlsSecretName: metrics-tls", "", 1))
	for name, c := range map[string]struct {
		endpoint endpoint
		target   string
		// account whose token is shown, and the directory with the CA.
		account, ca string
		// fails is what Prometheus says of a target that is down; "" if it is up.
		fails string
	}{
		"Prometheus":                             {byCA, verified, "prometheus", issued, ""},
		"another account":                        {byCA, verified, "other", issued, "403 Forbidden"},
		"another CA":                             {byCA, verified, "prometheus", strange, "certificate signed by unknown authority"},
		"a process that makes its certificate":   {unverified, own, "prometheus", "", ""},
		"that process instead of a verified one": {byCA, own, "prometheus", issued, "certificate"},
	} {
		t.Run(name, func(t *testing.T) {
			got := s.scrape(program, c.endpoint, c.target, c.account, c.ca)
			if c.fails == "" && (got.Health != "up" || got.Series < 10) {
				t.Errorf("Prometheus gets no metrics: %+v", got)
			}
			if c.fails != "" && (got.Health != "down" || !strings.Contains(got.Error, c.fails)) {
				t.Errorf("Prometheus says %+v, want %q", got, c.fails)
			}
		})
	}
}

// endpoint is what a ServiceMonitor says of one, as far as the chart sets it.
type endpoint struct {
	Port, Path, Scheme, BearerTokenFile string
	TLSConfig                           struct {
		CA                 *struct{ Secret struct{ Name, Key string } }
		ServerName         string
		InsecureSkipVerify bool
	}
}

// endpoint of the ServiceMonitor that the chart has for some values. What is unknown in it is an error: the
// test would not heed it.
func (s *chartServers) endpoint(values string) endpoint {
	s.Helper()
	rendered, err := chart(s.T, "millwright", values+"serviceMonitor: {enabled: true}\n", "--namespace", s.namespace, "--set", "settings.clusterName=demo")
	if err != nil {
		s.Fatal(err)
	}
	objects, err := clustertest.Decode(rendered)
	if err != nil {
		s.Fatal(err)
	}
	for _, o := range objects {
		if o.GetKind() != "ServiceMonitor" {
			continue
		}
		list, _, err := unstructured.NestedSlice(o.Object, "spec", "endpoints")
		if err != nil || len(list) != 1 {
			s.Fatalf("the ServiceMonitor has %d endpoints, %v", len(list), err)
		}
		data, err := json.Marshal(list[0])
		if err != nil {
			s.Fatal(err)
		}
		var e endpoint
		decoder := json.NewDecoder(bytes.NewReader(data))
		decoder.DisallowUnknownFields()
		if err := decoder.Decode(&e); err != nil {
			s.Fatalf("endpoint of the ServiceMonitor %s: %v", data, err)
		}
		return e
	}
	s.Fatal("there is no ServiceMonitor")
	return endpoint{}
}

// scraped is what came of a target.
type scraped struct {
	Health, Error string
	Series        int
}

// scrape a target once with the configuration that the operator makes of an endpoint, in a pod that has the
// token of an account.
func (s *chartServers) scrape(program string, e endpoint, target, account, ca string) scraped {
	s.Helper()
	if e.BearerTokenFile != prometheusToken {
		s.Fatalf("the ServiceMonitor has the token read from %q", e.BearerTokenFile)
	}
	dir := s.TempDir()
	token := filepath.Join(dir, "token")
	if err := os.WriteFile(token, []byte(s.tokenOf(account)), 0o600); err != nil {
		s.Fatal(err)
	}
	security := map[string]any{"insecure_skip_verify": e.TLSConfig.InsecureSkipVerify, "server_name": e.TLSConfig.ServerName}
	if e.TLSConfig.CA != nil {
		if name := e.TLSConfig.CA.Secret.Name; name != "metrics-tls" {
			s.Fatalf("the ServiceMonitor has the CA read from Secret %q", name)
		}
		security["ca_file"] = filepath.Join(ca, e.TLSConfig.CA.Secret.Key)
	}
	config, err := yaml.Marshal(map[string]any{
		"global": map[string]any{"scrape_interval": "1s", "scrape_timeout": "1s"},
		"scrape_configs": []any{map[string]any{
			"job_name": "millwright", "scheme": e.Scheme, "metrics_path": e.Path, "scrape_timeout": "5s", "scrape_interval": "5s",
			"authorization": map[string]any{"credentials_file": token}, "tls_config": security,
			"static_configs": []any{map[string]any{"targets": []string{target}}}}}})
	if err != nil {
		s.Fatal(err)
	}
	file := filepath.Join(dir, "prometheus.yaml")
	if err := os.WriteFile(file, config, 0o600); err != nil {
		s.Fatal(err)
	}
	var problems bytes.Buffer
	cmd := exec.CommandContext(s.Context(), program, "--config", file)
	cmd.Stderr = &problems
	out, err := cmd.Output()
	if err != nil {
		s.Fatalf("%v: %s", err, problems.Bytes())
	}
	found := map[string]scraped{}
	if err := json.Unmarshal(out, &found); err != nil {
		s.Fatal(err)
	}
	return found[target]
}

// scraper builds the program with Prometheus' scraper.
func scraper(t *testing.T) string {
	t.Helper()
	program := filepath.Join(t.TempDir(), "scrape")
	build := exec.CommandContext(t.Context(), "go", "build", "-o", program, "./scrape")
	build.Dir = filepath.Join(clustertest.Root(), "tools/gen/rules") // a module of its own, for Prometheus
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("build scrape: %v: %s", err, out)
	}
	return program
}

// metricsSecret writes a certificate for the Service of the chart, and its CA, to a directory as a Secret has
// them.
func (s *chartServers) metricsSecret(name string) string {
	s.Helper()
	chain, key, err := cert.GenerateSelfSignedCertKey(fmt.Sprintf("millwright.%s.svc", s.namespace), nil, nil)
	if err != nil {
		s.Fatal(err)
	}
	certificates, err := cert.ParseCertsPEM(chain)
	if err != nil {
		s.Fatal(err)
	}
	ca, err := cert.EncodeCertificates(certificates[len(certificates)-1])
	if err != nil {
		s.Fatal(err)
	}
	dir := filepath.Join(s.dir, name)
	if err := os.MkdirAll(dir, 0o700); err != nil {
		s.Fatal(err)
	}
	for file, data := range map[string][]byte{"tls.crt": chain, "tls.key": key, "ca.crt": ca} {
		if err := os.WriteFile(filepath.Join(dir, file), data, 0o600); err != nil {
			s.Fatal(err)
		}
	}
	return dir
}

// prometheusMayScrape binds the role of the chart to the account of Prometheus.
func (s *chartServers) prometheusMayScrape() {
	s.Helper()
	binding := &rbacv1.ClusterRoleBinding{ObjectMeta: metav1.ObjectMeta{Name: "prometheus"}, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "millwright-metrics"},
		Subjects: []rbacv1.Subject{{Kind: "ServiceAccount", Namespace: s.namespace, Name: "prometheus"}}}
	if _, err := s.kube.RbacV1().ClusterRoleBindings().Create(s.Context(), binding, metav1.CreateOptions{}); err != nil {
		s.Fatal(err)
	}
}

// serveMetrics starts a process whose metrics are for those alone who may get them, waits until Prometheus
// does, and returns the addresses of its metrics and probes.
func (s *chartServers) serveMetrics(name string, flags ...string) (metrics, health string) {
	s.Helper()
	metrics, health = "127.0.0.1:"+s.freePort(), "127.0.0.1:"+s.freePort()
	s.process(name, exec.Command(s.binary("millwright"), append([]string{"webhook", "--kubeconfig", s.kubeconfig(s.cluster, "millwright-webhook"),
		"--system-namespace", s.namespace, "--karpenter-service", "millwright-webhook", "--webhook-secret", "millwright-webhook-cert", "--webhook-port", "0",
		"--metrics-authorization", "--metrics-port", portOf(metrics), "--health-probe-port", portOf(health)}, flags...)...))
	deadline := time.Now().Add(convergence)
	// What is refused is remembered for a minute, so each attempt shows another token.
	for code, text := 0, ""; code != http.StatusOK; code, text = scrapeAs("https://"+metrics+"/metrics", s.tokenOf("prometheus")) {
		if time.Now().After(deadline) {
			s.Fatalf("Prometheus gets no metrics: %d %s", code, text)
		}
		time.Sleep(100 * time.Millisecond)
	}
	return metrics, health
}

func portOf(address string) string {
	_, port, _ := net.SplitHostPort(address)
	return port
}
