package e2e

import (
	"fmt"
	"net"
	"testing"
	"time"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"millwright/tools/rights"
)

// deadWebhook registers a webhook of admission that accepts connections and never answers, for what
// Millwright writes of these resources. The API server does without it after the 10 s that are the default of
// its timeout.
func (e *env) deadWebhook(groups, resources []string) {
	e.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		e.Fatal(err)
	}
	e.Cleanup(func() { _ = l.Close() })
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			e.Cleanup(func() { _ = c.Close() })
		}
	}()
	url := fmt.Sprintf("https://%s/", l.Addr())
	none, ignore := admissionv1.SideEffectClassNone, admissionv1.Ignore
	_, err = e.kube.AdmissionregistrationV1().ValidatingWebhookConfigurations().Create(e.Context(), &admissionv1.ValidatingWebhookConfiguration{
		ObjectMeta: metav1.ObjectMeta{Name: "dead"},
		Webhooks: []admissionv1.ValidatingWebhook{{
			Name: "dead.example.com", ClientConfig: admissionv1.WebhookClientConfig{URL: &url},
			SideEffects: &none, FailurePolicy: &ignore, AdmissionReviewVersions: []string{"v1"},
			MatchConditions: []admissionv1.MatchCondition{{Name: "millwright", Expression: fmt.Sprintf("request.userInfo.username.startsWith(%q)", rights.AccountPrefix)}},
			Rules: []admissionv1.RuleWithOperations{{Operations: []admissionv1.OperationType{admissionv1.OperationAll},
				Rule: admissionv1.Rule{APIGroups: groups, APIVersions: []string{"*"}, Resources: resources}}},
		}},
	}, metav1.CreateOptions{})
	if err != nil {
		e.Fatal(err)
	}
}

// Nodes are slow to go, but they go: they are tainted, their pods are evicted, and the instance ends.
func TestAWebhookThatDoesNotAnswer(t *testing.T) {
	e := start(t, nil)
	e.apply(defaultClass)
	e.apply(defaultPool)
	e.deploy("web", 2, "3", "1Gi", apart("web"))
	e.running("web", 2)
	e.deadWebhook([]string{"", "karpenter.sh"}, []string{"nodes", "nodeclaims", "nodeclaims/status", "pods/eviction"})
	time.Sleep(2 * time.Second) // the API server reads it from a cache
	began := time.Now()
	old := e.nodeClaims()[0].GetName()
	e.deleteClaim(old)
	e.claimGone(old)
	e.running("web", 2)
	if took := time.Since(began); took < 20*time.Second {
		t.Errorf("it took %s: no write has waited for the webhook", took)
	}
	if err := e.kube.AdmissionregistrationV1().ValidatingWebhookConfigurations().Delete(e.Context(), "dead", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	e.scale("web", 0)
	e.clean()
	e.sound()
}
