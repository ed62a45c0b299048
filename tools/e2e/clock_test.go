package e2e

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"millwright/tools/stack"
)

// witnesses are proxies between Millwright and both the API server and EC2. They report another time than the
// servers do, or none at all.
type witnesses struct {
	api, ec2 atomic.Int64
	// lost is asked after a call was carried out whether its answer is to be lost; nil loses none.
	lost func(*http.Request) bool
	// cut is asked before a call is passed on, and again before it is answered, whether to close the
	// connection there; nil never does.
	cut func(c call, carriedOut bool) bool
}

// call is a request to the API server or EC2. Only calls that write have a body.
type call struct{ method, path, body string }

// callKey is the key of the call in the context of a request.
type callKey struct{}

// readCall reads the body of a request and puts it back.
func readCall(r *http.Request) call {
	c := call{method: r.Method, path: r.URL.Path}
	if r.Method == http.MethodPost || r.Method == http.MethodPatch {
		body, _ := io.ReadAll(r.Body)
		r.Body, c.body = io.NopCloser(bytes.NewReader(body)), string(body)
	}
	return c
}

var errLost = errors.New("the answer is lost")

// proxy passes everything on to target, and changes only the Date of the answers.
func (w *witnesses) proxy(t *testing.T, target *url.URL, transport http.RoundTripper, shift *atomic.Int64) string {
	p := httputil.NewSingleHostReverseProxy(target)
	p.Transport, p.FlushInterval = transport, -1
	p.ModifyResponse = func(r *http.Response) error {
		if date, err := http.ParseTime(r.Header.Get("Date")); err == nil {
			r.Header.Set("Date", date.Add(time.Duration(shift.Load())).UTC().Format(http.TimeFormat))
		}
		if w.lost != nil && w.lost(r.Request) {
			return errLost
		}
		if c, ok := r.Request.Context().Value(callKey{}).(call); ok && w.cut(c, true) {
			return errLost
		}
		return nil
	}
	p.ErrorHandler = func(rw http.ResponseWriter, _ *http.Request, err error) {
		if errors.Is(err, errLost) {
			panic(http.ErrAbortHandler) // which closes the connection
		}
		rw.WriteHeader(http.StatusBadGateway)
	}
	server := httptest.NewServer(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		if w.cut != nil {
			c := readCall(r)
			if w.cut(c, false) {
				panic(http.ErrAbortHandler)
			}
			r = r.WithContext(context.WithValue(r.Context(), callKey{}, c))
		}
		p.ServeHTTP(rw, r)
	}))
	t.Cleanup(server.Close)
	t.Cleanup(server.CloseClientConnections) // or watches would hold up the end
	return server.URL
}

// through implements stack.Options.Through.
func (w *witnesses) through(t *testing.T) func(*rest.Config, string) (string, string, error) {
	return func(cluster *rest.Config, ec2 string) (string, string, error) {
		transport, err := rest.TransportFor(cluster)
		if err != nil {
			return "", "", err
		}
		server, err := url.Parse(cluster.Host)
		if err != nil {
			return "", "", err
		}
		cloud, err := url.Parse(ec2)
		if err != nil {
			return "", "", err
		}
		config := clientcmdapi.NewConfig()
		config.Clusters["c"] = &clientcmdapi.Cluster{Server: w.proxy(t, server, transport, &w.api)}
		config.Contexts["c"] = &clientcmdapi.Context{Cluster: "c"}
		config.CurrentContext = "c"
		file := filepath.Join(t.TempDir(), "kubeconfig")
		return file, w.proxy(t, cloud, nil, &w.ec2), clientcmd.WriteToFile(*config, file)
	}
}

func (w *witnesses) say(api, ec2 time.Duration) {
	w.api.Store(int64(api))
	w.ec2.Store(int64(ec2))
}

// A NodePool whose nodes expire so soon that a clock an hour ahead, if it were believed, would end them all.
const shortLivedPool = `
apiVersion: karpenter.sh/v1
kind: NodePool
metadata: {name: default}
spec:
  template:
    spec:
      requirements:
        - {key: kubernetes.io/arch, operator: In, values: [amd64]}
        - {key: karpenter.sh/capacity-type, operator: In, values: [on-demand]}
        - {key: karpenter.k8s.aws/instance-category, operator: In, values: [c, m, r]}
      nodeClassRef: {group: karpenter.k8s.aws, kind: EC2NodeClass, name: default}
      expireAfter: 30m
  disruption:
    consolidationPolicy: WhenEmpty
    consolidateAfter: 1s
    budgets: [{nodes: "100%"}]
`

func TestFiveServicesStandDownWhileTheirClocksAreOff(t *testing.T) {
	w := &witnesses{}
	e := start(t, func(o *stack.Options) { o.FiveProcesses, o.Through = true, w.through(t) })
	e.clocksAreOff(w, stack.Services, -time.Hour, time.Hour)
	// EC2 alone contradicts the clock: the services that talk to it stand down, nothing is launched or
	// deleted, and pods wait.
	e.deploy("later", 0, "3", "1Gi")
	w.say(0, time.Hour)
	for _, name := range []string{"watcher", "lifecycle"} {
		e.standsDown(name)
	}
	e.scale("later", 1)
	e.nothingChanges(10 * time.Second)
	w.say(0, 0)
	e.running("later", 1)
	e.scale("later", 0)
	e.clean()
	e.sound()
}

func TestOneProcessStandsDownWhileItsClockIsOff(t *testing.T) {
	w := &witnesses{}
	e := start(t, func(o *stack.Options) { o.Through = w.through(t) })
	e.clocksAreOff(w, []string{"millwright"}, -time.Hour, 31*24*time.Hour)
	e.clean()
	e.sound()
}

// clocksAreOff has the witnesses contradict the clock of all processes by each shift in turn, restarting the
// processes in between. No pod is left at the end.
func (e *env) clocksAreOff(w *witnesses, processes []string, shifts ...time.Duration) {
	e.Helper()
	e.apply(defaultClass)
	e.apply(shortLivedPool)
	e.deploy("web", 2, "3", "1Gi", apart("web"))
	e.running("web", 2)
	e.deploy("more", 0, "3", "1Gi", apart("more"))
	for i, shift := range shifts {
		e.Logf("the witnesses are off by %s", shift)
		w.say(shift, shift)
		for _, name := range processes {
			e.standsDown(name)
		}
		before := e.decisions()
		// One node is no longer needed, pods wait for another, and a NodeClaim is deleted.
		e.scale("web", 1)
		e.scale("more", int32(i+1))
		e.nothingChanges(8 * time.Second)
		for _, name := range processes {
			p := e.stack.Process(name)
			if err := p.Stop(); err != nil {
				e.Fatal(err)
			}
			if err := p.Restart(); err != nil {
				e.Fatal(err)
			}
		}
		for _, name := range processes {
			e.standsDown(name)
		}
		e.nothingChanges(12 * time.Second)
		if after := e.decisions(); after != before {
			e.Errorf("%d decisions while the clocks are off", after-before)
		}
		w.say(0, 0)
		for _, name := range processes {
			if err := e.stack.AwaitReady(e.Context(), e.stack.Process(name)); err != nil {
				e.Fatal(err)
			}
			e.hasMetric(name, "millwright_clock_unreliable", is(0))
		}
		e.scale("web", 2)
		e.running("web", 2)
		e.running("more", i+1)
		e.matched()
	}
	e.scale("web", 0)
	e.scale("more", 0)
	e.clean()
}

// standsDown waits until a process reports, in every way it can, that its clock cannot be relied on.
func (e *env) standsDown(name string) {
	e.Helper()
	e.eventually(name+" is not ready because of its clock", func() string {
		if text := e.stack.Readiness(e.Context(), name); !strings.Contains(text, "the clock is at least") {
			return text
		}
		return ""
	})
	e.hasMetric(name, "millwright_clock_unreliable", is(1))
	e.eventually(name+" logs that it stands down", func() string {
		log, err := os.ReadFile(e.stack.Process(name).Log())
		if err != nil {
			return err.Error()
		}
		if !strings.Contains(string(log), "clock cannot be relied on: standing down") {
			return "not yet"
		}
		return ""
	})
}

// nothingChanges checks for a while that no instance, Node or NodeClaim appears or disappears.
func (e *env) nothingChanges(d time.Duration) {
	e.Helper()
	standing := func() string {
		var all []string
		for _, i := range e.liveInstances() {
			all = append(all, i.ID)
		}
		for _, n := range e.nodes() {
			all = append(all, n.Name, fmt.Sprint(n.DeletionTimestamp, n.Spec.Unschedulable, n.Spec.Taints))
		}
		for _, c := range e.nodeClaims() {
			all = append(all, c.GetName(), fmt.Sprint(c.GetDeletionTimestamp()))
		}
		return strings.Join(all, " ")
	}
	before := standing()
	e.lasts(d, "nobody acts", func() string {
		if now := standing(); now != before {
			return fmt.Sprintf("%s\nbefore: %s", now, before)
		}
		return ""
	})
}

// decisions counts the records of decisions.
func (e *env) decisions() int {
	e.Helper()
	n := 0
	for _, kind := range []string{"ProvisioningPlanned", "CommandProposed", "LaunchRequested", "ClaimDoomed", "DrainStarted"} {
		out, code := e.millctl("log", "--kind", kind)
		if code != 0 {
			e.Fatalf("millctl log --kind %s: exit %d\n%s", kind, code, out)
		}
		n += strings.Count(out, kind)
	}
	return n
}
