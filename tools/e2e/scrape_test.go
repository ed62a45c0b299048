package e2e

import (
	"crypto/tls"
	"fmt"
	"io"
	"net/http"
	"strings"
	"syscall"
	"testing"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"millwright/tools/clustertest"
)

// scrapeMax bounds every answer, also while the API server hangs.
const scrapeMax = 8 * time.Second

// TestMetricsAreForWhoMayScrape: with controller.metrics.secure the API server says who gets the metrics, by
// the rights that the chart gives to the processes and to Prometheus; while it hangs, who was let in last
// still is, and nobody else.
func TestMetricsAreForWhoMayScrape(t *testing.T) {
	t.Parallel()
	cluster := clustertest.Start(t)
	s := installServers(t, cluster, "mode: distributed\nwebhook: {enabled: true}\ncontroller: {metrics: {secure: true}}\nserviceMonitor: {enabled: false}\n")
	s.prometheusMayScrape()
	prometheus, other, late := s.tokenOf("prometheus"), s.tokenOf("other"), s.tokenOf("prometheus")
	metrics, health := s.serveMetrics("webhook")
	url := "https://" + metrics + "/metrics"
	if code, _ := scrapeAs("http://"+health+"/healthz", ""); code != http.StatusOK {
		t.Errorf("probes: %d", code)
	}
	expect := func(when, who, token string, want int) {
		t.Helper()
		began := time.Now()
		code, text := scrapeAs(url, token)
		if code != want || strings.Contains(text, "karpenter_build_info{") != (want == http.StatusOK) {
			t.Errorf("%s, %s: %d, want %d\n%.300s", when, who, code, want, text)
		}
		if took := time.Since(began); took > scrapeMax {
			t.Errorf("%s, %s: an answer after %v", when, who, took)
		}
	}
	expect("at first", "Prometheus", prometheus, http.StatusOK)
	expect("at first", "another account", other, http.StatusForbidden)
	expect("at first", "nobody", "", http.StatusUnauthorized)
	expect("at first", "a forged token", prometheus+"x", http.StatusUnauthorized)
	if err := cluster.Signal("kube-apiserver", syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := cluster.Signal("kube-apiserver", syscall.SIGCONT); err != nil {
			t.Error(err)
		}
	}()
	expect("while the API server hangs", "who was let in", prometheus, http.StatusOK)
	expect("while the API server hangs", "a new token", late, http.StatusServiceUnavailable)
	expect("while the API server hangs", "nobody", "", http.StatusUnauthorized)
}

// TestEveryProcessCanAskWhoScrapes: each pod of the chart that is to let nobody else scrape has a token,
// and the rights to ask the API server who it is that asks.
func TestEveryProcessCanAskWhoScrapes(t *testing.T) {
	t.Parallel()
	objects := renderedObjects(t, secureMetrics)
	may, asks := map[string]bool{}, 0
	for _, o := range objects {
		if o.GetKind() == "ClusterRoleBinding" && o.GetName() == "millwright-metrics-reviewer" {
			subjects, _, _ := unstructured.NestedSlice(o.Object, "subjects")
			for _, s := range subjects {
				may[s.(map[string]any)["name"].(string)] = true
			}
		}
	}
	for _, o := range objects {
		pod, found, _ := unstructured.NestedMap(o.Object, "spec", "template", "spec")
		if !found || pod["serviceAccountName"] == nil { // etcd and NATS have none
			continue
		}
		asks++
		if text := fmt.Sprint(pod["containers"]); !strings.Contains(text, "METRICS_AUTHORIZATION") || !strings.Contains(text, "/etc/millwright/metrics") {
			t.Errorf("%s serves its metrics to everybody", o.GetName())
		}
		if pod["automountServiceAccountToken"] == false {
			t.Errorf("%s has no token to ask with", o.GetName())
		}
		if account := pod["serviceAccountName"].(string); !may[account] {
			t.Errorf("%s may not ask", account)
		}
	}
	if asks != 5+1+1+1+1 { // the services, the console, the export, the webhook, the keeper of certificates
		t.Errorf("%d kinds of pods", asks)
	}
}

// tokenOf makes a token of a ServiceAccount, and the account if need be.
func (s *chartServers) tokenOf(account string) string {
	s.Helper()
	accounts := s.kube.CoreV1().ServiceAccounts(s.namespace)
	_, _ = accounts.Create(s.Context(), &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: account}}, metav1.CreateOptions{})
	token, err := accounts.CreateToken(s.Context(), account, &authenticationv1.TokenRequest{}, metav1.CreateOptions{})
	if err != nil {
		s.Fatal(err)
	}
	return token.Status.Token
}

// scrapeAs is the answer to somebody with a token; 0 if there is none.
func scrapeAs(url, token string) (code int, text string) {
	client := &http.Client{Timeout: 2 * scrapeMax, Transport: &http.Transport{DisableKeepAlives: true, TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}}
	req, err := http.NewRequest(http.MethodGet, url, nil)
	if err != nil {
		return 0, err.Error()
	}
	if token != "" {
		req.Header.Set("Authorization", "Bearer "+token)
	}
	resp, err := client.Do(req)
	if err != nil {
		return 0, err.Error()
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		return 0, err.Error()
	}
	return resp.StatusCode, string(body)
}
