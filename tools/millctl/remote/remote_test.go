package remote

import (
	"errors"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/client-go/rest"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"millwright/services/console/trust"
)

// However a kubeconfig has its token, it is found; one with a certificate or a password has none.
func TestTheTokenOfAKubeconfig(t *testing.T) {
	dir := t.TempDir()
	file, program := filepath.Join(dir, "token"), filepath.Join(dir, "get-token")
	for name, text := range map[string]string{file: "of a file\n", program: `#!/bin/sh
echo '{"apiVersion":"client.authentication.k8s.io/v1","kind":"ExecCredential","status":{"token":"of a program"}}'
`} {
		if err := os.WriteFile(name, []byte(text), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	for about, c := range map[string]struct {
		config rest.Config
		want   string
	}{
		"its own":       {rest.Config{BearerToken: "its own"}, "its own"},
		"a file":        {rest.Config{BearerTokenFile: file}, "of a file"},
		"a program":     {rest.Config{ExecProvider: &clientcmdapi.ExecConfig{Command: program, APIVersion: "client.authentication.k8s.io/v1", InteractiveMode: clientcmdapi.NeverExecInteractiveMode}}, "of a program"},
		"a password":    {rest.Config{Username: "ann", Password: "secret"}, ""},
		"a certificate": {rest.Config{}, ""},
	} {
		c.config.Host = "https://api.example"
		if got, err := ownToken(t.Context(), &c.config); err != nil || got != c.want {
			t.Errorf("%s: %q, %v", about, got, err)
		}
	}
	broken := &rest.Config{Host: "https://api.example", ExecProvider: &clientcmdapi.ExecConfig{Command: filepath.Join(dir, "missing"), APIVersion: "client.authentication.k8s.io/v1",
		InteractiveMode: clientcmdapi.NeverExecInteractiveMode}}
	if _, err := ownToken(t.Context(), broken); err == nil || !strings.Contains(err.Error(), "token of the kubeconfig") {
		t.Errorf("a program that is missing: %v", err)
	}
}

func consoleService(namespace string, ports ...corev1.ServicePort) *corev1.Service {
	return &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "millwright-console", Labels: map[string]string{trust.ServiceLabel: "true"}},
		Spec: corev1.ServiceSpec{Selector: map[string]string{"app": "x"}, Ports: ports}}
}

func TestTheServiceIsTheOneThatIsMeant(t *testing.T) {
	port := corev1.ServicePort{Name: trust.PortName, TargetPort: intstr.FromString(trust.PortName)}
	core := fake.NewClientset(consoleService("a", port), consoleService("b", port), consoleService("c", corev1.ServicePort{Name: "other"}))
	for namespace, want := range map[string]string{"": "a/millwright-console, b/millwright-console", "c": "not in namespace c", "d": "not in namespace d"} {
		c := &Cluster{Core: core, settings: Settings{InstalledIn: namespace}}
		if _, err := c.find(t.Context()); !errors.Is(err, ErrUnreachable) || !strings.Contains(err.Error(), want) {
			t.Errorf("in %q: %v", namespace, err)
		}
	}
	c := &Cluster{Core: core, settings: Settings{InstalledIn: "b"}}
	if got, err := c.find(t.Context()); err != nil || got.namespace != "b" {
		t.Error(got, err)
	}
}

func TestEventsOfATail(t *testing.T) {
	var got []string
	body := ": hello\nretry: 3000\n\nid: 7\nevent: record\ndata: {\"seq\":7}\n\n: still here\n\nid: 9\nevent: record\ndata: {\"seq\":9}\n\nevent: lost\ndata: too slow\n\n"
	last, err := events(strings.NewReader(body), func(data []byte) error {
		got = append(got, string(data))
		return nil
	})
	if d := cmp.Diff([]string{`{"seq":7}`, `{"seq":9}`}, got); d != "" || last != 9 || !errors.Is(err, ErrMissed) {
		t.Error(d, last, err)
	}
}

func TestWhatARefusalMeans(t *testing.T) {
	for status, denied := range map[int]bool{http.StatusUnauthorized: true, http.StatusForbidden: true, http.StatusNotFound: false, http.StatusServiceUnavailable: false} {
		err := refusal(status, []byte(`{"status":1,"message":"no"}`))
		if Denied(err) != denied || err.Error() == "" {
			t.Errorf("%d: %v", status, err)
		}
	}
	if err := refusal(http.StatusBadGateway, []byte("<html>")); !strings.Contains(err.Error(), "502 Bad Gateway") {
		t.Error(err)
	}
}
