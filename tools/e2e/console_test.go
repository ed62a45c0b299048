package e2e

import (
	"bufio"
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"strings"
	"testing"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"millwright/deploy/manifests"
	"millwright/services/console/trust"
	"millwright/tools/stack"
)

// browser sends requests to the console, and trusts only the console's own CA.
func (e *env) browser() *http.Client {
	e.Helper()
	roots := x509.NewCertPool()
	e.eventually("the console has a certificate", func() string {
		pem, err := os.ReadFile(e.stack.ConsoleCA())
		if err != nil || !roots.AppendCertsFromPEM(pem) {
			return fmt.Sprint("none: ", err)
		}
		return ""
	})
	transport := &http.Transport{TLSClientConfig: &tls.Config{RootCAs: roots}}
	e.Cleanup(transport.CloseIdleConnections)
	return &http.Client{Transport: transport}
}

// person creates a ServiceAccount with one of the chart's roles ("" for none), and returns its token.
func (e *env) person(name, role string) string {
	e.Helper()
	meta := metav1.ObjectMeta{Name: name}
	if _, err := e.kube.CoreV1().ServiceAccounts("default").Create(e.Context(), &corev1.ServiceAccount{ObjectMeta: meta}, metav1.CreateOptions{}); err != nil {
		e.Fatal(err)
	}
	if role != "" {
		if _, err := e.kube.RbacV1().ClusterRoleBindings().Create(e.Context(), &rbacv1.ClusterRoleBinding{ObjectMeta: meta,
			RoleRef:  rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: role},
			Subjects: []rbacv1.Subject{{Kind: "ServiceAccount", Name: name, Namespace: "default"}}}, metav1.CreateOptions{}); err != nil {
			e.Fatal(err)
		}
	}
	token, err := e.kube.CoreV1().ServiceAccounts("default").CreateToken(e.Context(), name, &authenticationv1.TokenRequest{}, metav1.CreateOptions{})
	if err != nil {
		e.Fatal(err)
	}
	return token.Status.Token
}

// console requests a path of the API, and decodes the answer.
func (e *env) console(c *http.Client, token, method, path, body string, into any) int {
	e.Helper()
	req, err := http.NewRequestWithContext(e.Context(), method, e.stack.ConsoleURL()+"/api/v1"+path, strings.NewReader(body))
	if err != nil {
		e.Fatal(err)
	}
	if token != "" {
		req.Header.Set("Authorization", "Bearer "+token)
	}
	if body != "" {
		req.Header.Set("Content-Type", "application/json")
	}
	resp, err := c.Do(req)
	if err != nil {
		e.Logf("%s %s: %v", method, path, err)
		return 0
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	if err != nil {
		e.Fatal(err)
	}
	if into != nil && resp.StatusCode == http.StatusOK {
		if err := json.NewDecoder(bytes.NewReader(b)).Decode(into); err != nil {
			e.Fatalf("%s %s: %v in %s", method, path, err, b)
		}
	}
	return resp.StatusCode
}

// Against a real API server: without a token there is no access; a viewer can look but not give orders; an
// operator can do both, and the record names the operator; a tail delivers records; and the console tells the
// same story as millctl.
func TestConsole(t *testing.T) {
	e := start(t, func(o *stack.Options) { o.MillwrightArgs = append(o.MillwrightArgs, "--console-team-label=app") })
	e.apply(strings.Replace(policyManifest, "ZONE", "Europe/Berlin", 1))
	e.apply(defaultClass)
	e.apply(strings.Replace(defaultPool, "[on-demand]", "[spot]", 1))
	c := e.browser()
	viewer, operator, stranger := e.person("vera", "millwright-viewer"), e.person("otto", "millwright-operator"), e.person("nico", "")
	for token, want := range map[string]int{"": 401, "nonsense": 401, stranger: 403, viewer: 200, operator: 200} {
		e.eventually("rights are known", func() string {
			if got := e.console(c, token, http.MethodGet, "/status", "", nil); got != want {
				return fmt.Sprintf("%.10s gets %d, want %d", token, got, want)
			}
			return ""
		})
	}
	e.eventually("its certificate is published", func() string {
		own, err := os.ReadFile(e.stack.ConsoleCA())
		if err != nil {
			e.Fatal(err)
		}
		published, err := trust.Read(e.Context(), e.kube, manifests.Namespace, "millwright-console")
		if err != nil || published.ServerName != "localhost" || !bytes.Contains(published.Certificates, bytes.TrimSpace(own)) {
			return fmt.Sprint(published, err)
		}
		return ""
	})
	tail := e.followConsole(c, viewer)
	e.deploy("web", 1, "1", "1Gi")
	e.running("web", 1)
	node := e.nodes()[0].Name
	e.eventually("the tail shows the launch", func() string {
		select {
		case row := <-tail:
			if row["kind"] == "Launched" {
				return ""
			}
			return fmt.Sprint("not yet: ", row["kind"])
		default:
			return "nothing more"
		}
	})
	e.eventually("the node is shown", func() string {
		var nodes struct{ Items []map[string]any }
		if e.console(c, viewer, http.MethodGet, "/nodes", "", &nodes); len(nodes.Items) != 1 || nodes.Items[0]["name"] != node || nodes.Items[0]["state"] != "ready" || nodes.Items[0]["microUSDPerHour"] == 0.0 {
			return fmt.Sprint(nodes.Items)
		}
		return ""
	})
	e.savesBySpot(c, viewer)
	e.sameStory(c, viewer, node)
	e.scale("web", 0)
	e.answerByConsole(c, viewer, operator)
	e.clean()
	if out, _ := e.millctl("log", "--kind", "ProposalAnswered"); !strings.Contains(out, "approved by system:serviceaccount:default:otto: nobody needs it") {
		t.Errorf("the log says\n%s", out)
	}
	e.sound()
}

// savesBySpot waits until the one node, a spot instance, is told to cost less than on demand, and
// compares what it costs with the least that its pod can cost.
func (e *env) savesBySpot(c *http.Client, token string) {
	e.Helper()
	e.eventually("what spot saves is told", func() string {
		var savings struct {
			Spot struct {
				Total struct {
					Running, Unpriced int
					PerHour, Saved    int64
				}
				Namespaces, Teams []struct {
					Name  string
					Saved int64
				}
			}
		}
		e.console(c, token, http.MethodGet, "/savings", "", &savings)
		if x := savings.Spot.Total; x.Running != 1 || x.Unpriced != 0 || x.PerHour <= 0 {
			return fmt.Sprintf("%+v", x)
		}
		of, sum := map[string]int64{}, int64(0)
		for _, x := range append(savings.Spot.Namespaces, savings.Spot.Teams...) {
			of[x.Name] += x.Saved
			sum += x.Saved
		}
		if of["default"] <= 0 || of["web"] != of["default"] || of["(unrequested)"] <= 0 || sum != 2*savings.Spot.Total.Saved { // whose pods it is for is looked at every 15 s
			return fmt.Sprintf("%+v", savings.Spot)
		}
		return ""
	})
	var nodes struct{ MicroUSDPerHour, LeastMicroUSDPerHour int64 }
	if got := e.console(c, token, http.MethodGet, "/nodes", "", &nodes); got != http.StatusOK || nodes.LeastMicroUSDPerHour <= 0 || nodes.LeastMicroUSDPerHour > nodes.MicroUSDPerHour {
		e.Errorf("nodes: %d, cost %d, at least %d", got, nodes.MicroUSDPerHour, nodes.LeastMicroUSDPerHour)
	}
}

// sameStory compares what the console says about a node with what millctl says.
func (e *env) sameStory(c *http.Client, token, node string) {
	e.Helper()
	var story struct{ Lines []struct{ Text string } }
	if got := e.console(c, token, http.MethodGet, "/why/node/"+node, "", &story); got != http.StatusOK || len(story.Lines) < 5 {
		e.Fatalf("why node %s: %d, %d lines", node, got, len(story.Lines))
	}
	out, _ := e.millctl("why", "node", node)
	for _, l := range story.Lines {
		if !strings.Contains(out, l.Text) {
			e.Errorf("millctl does not say %q, but\n%s", l.Text, out)
		}
	}
}

// answerByConsole waits for a proposal that a viewer cannot approve and an operator can.
func (e *env) answerByConsole(c *http.Client, viewer, operator string) {
	e.Helper()
	var commands struct{ Items []struct{ ID string } }
	e.eventually("a proposal", func() string {
		if e.console(c, viewer, http.MethodGet, "/commands?state=proposed", "", &commands); len(commands.Items) != 1 {
			return "none is listed"
		}
		return ""
	})
	path := "/commands/" + commands.Items[0].ID + "/approve"
	if got := e.console(c, viewer, http.MethodPost, path, `{"reason":"me too"}`, nil); got != http.StatusForbidden {
		e.Errorf("a viewer approves: %d", got)
	}
	if got := e.console(c, operator, http.MethodPost, path, `{"reason":"nobody needs it"}`, nil); got != http.StatusOK {
		e.Errorf("an operator approves: %d", got)
	}
	if got := e.console(c, operator, http.MethodPost, path, `{"reason":"again"}`, nil); got != http.StatusConflict && got != http.StatusNotFound {
		e.Errorf("a second answer: %d", got)
	}
}

// followConsole reads the tail of all records until the test ends.
func (e *env) followConsole(c *http.Client, token string) <-chan map[string]any {
	e.Helper()
	ctx, cancel := context.WithCancel(e.Context())
	e.Cleanup(cancel)
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, e.stack.ConsoleURL()+"/api/v1/decisions/tail", nil)
	if err != nil {
		e.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer "+token)
	resp, err := c.Do(req)
	if err != nil || resp.StatusCode != http.StatusOK {
		e.Fatalf("follow: %v, %v", resp, err)
	}
	rows := make(chan map[string]any, 1000)
	go func() {
		defer resp.Body.Close()
		for lines := bufio.NewScanner(resp.Body); lines.Scan(); {
			data, ok := strings.CutPrefix(lines.Text(), "data: ")
			row := map[string]any{}
			if ok && json.Unmarshal([]byte(data), &row) == nil {
				rows <- row
			}
		}
	}()
	return rows
}

// A console in a process of its own, with the rights that the chart gives it: it answers; while it is down
// nothing else is affected; and when it is back it knows what happened in the meantime.
func TestAConsoleByItself(t *testing.T) {
	e := start(t, func(o *stack.Options) { o.FiveProcesses, o.Console = true, true })
	e.apply(defaultClass)
	e.apply(defaultPool)
	// Its certificate lives as long as the process, and cannot be read from outside.
	transport := &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}
	t.Cleanup(transport.CloseIdleConnections)
	c, viewer := &http.Client{Transport: transport}, e.person("vera", "millwright-viewer")
	sees := func(nodes int) {
		e.eventually("the console shows the nodes", func() string {
			var list struct{ Items []map[string]any }
			if got := e.console(c, viewer, http.MethodGet, "/nodes?state=ready", "", &list); got != http.StatusOK || len(list.Items) != nodes {
				return fmt.Sprint(got, list.Items)
			}
			return ""
		})
	}
	sees(0)
	if err := e.stack.Process("console").Kill(); err != nil {
		t.Fatal(err)
	}
	e.deploy("web", 1, "1", "1Gi")
	e.running("web", 1)
	if err := e.stack.Process("console").Restart(); err != nil {
		t.Fatal(err)
	}
	sees(1)
	e.sameStory(c, viewer, e.nodes()[0].Name)
	e.scale("web", 0)
	e.clean()
	e.sound()
}

// A console that cannot listen affects nothing else.
func TestWithoutAConsoleNothingElseFails(t *testing.T) {
	e := start(t, func(o *stack.Options) { o.MillwrightArgs = append(o.MillwrightArgs, "--console-address=192.0.2.1:1") })
	e.apply(defaultClass)
	e.apply(defaultPool)
	e.deploy("web", 1, "1", "1Gi")
	e.running("web", 1)
	e.scale("web", 0)
	e.clean()
	log, err := os.ReadFile(e.stack.Process("millwright").Log())
	if err != nil || !bytes.Contains(log, []byte("console does not serve")) {
		t.Errorf("%v: the log of the process does not say that the console fails", err)
	}
	if ready := e.stack.Readiness(t.Context(), "millwright"); strings.Contains(ready, "[-]") {
		t.Errorf("not ready:\n%s", ready)
	}
	e.sound()
}
