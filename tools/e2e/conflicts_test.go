package e2e

import (
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"

	"millwright/tools/stack"
)

// between is a proxy between Millwright and the API server. It counts writes of Nodes and NodeClaims by
// status, and can delay the events of watches on them.
type between struct {
	t        *testing.T
	upstream atomic.Pointer[upstream]
	// delay of watch events, in nanoseconds; held counts the events that were delayed.
	delay, held atomic.Int64

	mu sync.Mutex
	// writes counts writes by verb, resource and status.
	writes map[string]int
}

type upstream struct {
	transport http.RoundTripper
	host      string
}

// newBetween listens, and returns a kubeconfig for the client that is to be counted.
func newBetween(t *testing.T) (b *between, kubeconfig string) {
	t.Helper()
	b = &between{t: t, writes: map[string]int{}}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	server := &http.Server{Handler: b, ReadHeaderTimeout: time.Minute}
	go func() { _ = server.Serve(l) }()
	t.Cleanup(func() { _ = server.Close() })
	kubeconfig = filepath.Join(t.TempDir(), "kubeconfig")
	text := fmt.Sprintf(`{apiVersion: v1, kind: Config, current-context: c, contexts: [{name: c, context: {cluster: c, user: c}}], users: [{name: c, user: {}}],
  clusters: [{name: c, cluster: {server: "http://%s"}}]}`, l.Addr())
	if err := os.WriteFile(kubeconfig, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return b, kubeconfig
}

// connect sets the address of the API server.
func (b *between) connect(cfg *rest.Config) {
	transport, err := rest.TransportFor(cfg)
	if err != nil {
		b.t.Fatal(err)
	}
	b.upstream.Store(&upstream{transport, strings.TrimPrefix(cfg.Host, "https://")})
}

// ServeHTTP passes a request on.
func (b *between) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	up := b.upstream.Load()
	if up == nil {
		http.Error(w, "not connected yet", http.StatusServiceUnavailable)
		return
	}
	out := r.Clone(r.Context())
	out.RequestURI, out.URL.Scheme, out.URL.Host, out.Host = "", "https", up.host, up.host
	answer, err := up.transport.RoundTrip(out)
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadGateway)
		return
	}
	defer answer.Body.Close()
	resource := resourceOf(r.URL.Path)
	if r.Method != http.MethodGet && resource != "" {
		b.mu.Lock()
		b.writes[fmt.Sprintf("%s %s %d", r.Method, resource, answer.StatusCode)]++
		b.mu.Unlock()
	}
	maps.Copy(w.Header(), answer.Header)
	w.WriteHeader(answer.StatusCode)
	if resource != "" && r.URL.Query().Get("watch") == "true" {
		b.passLater(w, answer.Body)
		return
	}
	_ = pass(w, answer.Body)
}

// resourceOf is "nodes" or "nodeclaims", with the subresource; "" for anything else.
func resourceOf(path string) string {
	for _, prefix := range []string{"/api/v1/nodes", "/apis/karpenter.sh/v1/nodeclaims"} {
		rest, ok := strings.CutPrefix(path, prefix)
		if parts := strings.Split(rest, "/"); ok && parts[0] == "" {
			return strings.Join(append([]string{prefix[strings.LastIndex(prefix, "/")+1:]}, parts[min(2, len(parts)):]...), "/")
		}
	}
	return ""
}

// pass copies the answer as it comes.
func pass(w http.ResponseWriter, from io.Reader) error {
	buf := make([]byte, 64<<10)
	for {
		n, err := from.Read(buf)
		if n > 0 {
			if _, err := w.Write(buf[:n]); err != nil {
				return err
			}
			_ = http.NewResponseController(w).Flush()
		}
		if err != nil {
			return err
		}
	}
}

// passLater copies the answer with the set delay, in order.
func (b *between) passLater(w http.ResponseWriter, from io.Reader) {
	type piece struct {
		data []byte
		at   time.Time
	}
	pieces := make(chan piece, 10_000)
	go func() {
		defer close(pieces)
		for {
			data := make([]byte, 16<<10)
			n, err := from.Read(data)
			if n > 0 {
				pieces <- piece{data[:n], time.Now()}
			}
			if err != nil {
				return
			}
		}
	}()
	gone := false
	for p := range pieces { // to the end, so that the reader does not wait forever
		for !gone {
			left := time.Until(p.at.Add(time.Duration(b.delay.Load())))
			if left <= 0 {
				break
			}
			b.held.Add(1)
			time.Sleep(min(left, 100*time.Millisecond))
		}
		if !gone {
			_, err := w.Write(p.data)
			gone = err != nil || http.NewResponseController(w).Flush() != nil
		}
	}
}

// count returns how many writes there were since the last call, how many of them were refused as conflicts,
// and a list by kind.
func (b *between) count() (writes, conflicts int, list string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	var lines []string
	for _, k := range slices.Sorted(maps.Keys(b.writes)) {
		n := b.writes[k]
		writes += n
		if strings.HasSuffix(k, " 409") {
			conflicts += n
		}
		lines = append(lines, fmt.Sprintf("%s: %d", k, n))
	}
	b.writes = map[string]int{}
	return writes, conflicts, strings.Join(lines, ", ")
}

// idlePool has nodes that no pod needs.
const idlePool = `
apiVersion: karpenter.sh/v1
kind: NodePool
metadata: {name: idle}
spec:
  replicas: %d
  template:
    spec:
      requirements:
        - {key: node.kubernetes.io/instance-type, operator: In, values: [m5.large, c5.large]}
        - {key: karpenter.sh/capacity-type, operator: In, values: [on-demand]}
      nodeClassRef: {group: karpenter.k8s.aws, kind: EC2NodeClass, name: default}
`

// TestDeletionsMakeNoStormOfWrites counts the writes that one deletion takes while nothing else happens. With
// sixty deletions at a time each may take a fifth more, because of conflicts; the same holds while every
// watch of Nodes and NodeClaims lags by seconds.
func TestDeletionsMakeNoStormOfWrites(t *testing.T) {
	const alone, late, many, delay = 3, 10, 60, 8 * time.Second
	b, kubeconfig := newBetween(t)
	e := start(t, func(o *stack.Options) {
		o.Bare, o.MillwrightArgs = true, append(o.MillwrightArgs, "--kubeconfig", kubeconfig)
	})
	b.connect(e.stack.Config())
	p, err := e.stack.StartMillwright()
	if err != nil {
		t.Fatal(err)
	}
	if err := e.stack.AwaitReady(t.Context(), p); err != nil {
		t.Fatal(err)
	}
	e.apply(defaultClass)
	e.apply(fmt.Sprintf(idlePool, alone+late+many))
	e.nodesOf("idle", alone+late+many)

	// quiet waits until nothing has been written for longer than watches lag.
	quiet := func() {
		for last, since := -1, time.Now(); time.Since(since) < delay+4*time.Second; time.Sleep(200 * time.Millisecond) {
			b.mu.Lock()
			n := 0
			for _, w := range b.writes {
				n += w
			}
			b.mu.Unlock()
			if n != last {
				last, since = n, time.Now()
			}
		}
	}
	left := alone + late + many
	remove := func(n int) (perNode float64, conflicts int) {
		quiet()
		b.count()
		left -= n
		patch := fmt.Appendf(nil, `{"spec":{"replicas":%d}}`, left)
		if _, err := e.dyn.Resource(nodePools).Patch(e.Context(), "idle", types.MergePatchType, patch, metav1.PatchOptions{}, "scale"); err != nil {
			t.Fatal(err)
		}
		e.eventually(fmt.Sprintf("%d nodes", left), func() string {
			nodes, claims := 0, len(e.nodeClaims())
			for _, node := range e.nodes() { // a node that never registered is not ours to delete
				if node.Labels["karpenter.sh/registered"] == "true" {
					nodes++
				}
			}
			if nodes != left || claims != left {
				return fmt.Sprintf("%d registered Nodes and %d NodeClaims", nodes, claims)
			}
			return ""
		})
		quiet()
		writes, conflicts, list := b.count()
		t.Logf("%d deletions made %d writes, %d of them conflicts: %s", n, writes, conflicts, list)
		return float64(writes) / float64(n), conflicts
	}
	needed, _ := remove(alone)
	b.delay.Store(int64(delay))
	behind, _ := remove(late)
	if b.held.Load() == 0 {
		t.Error("no event was held back")
	}
	b.delay.Store(0)
	together, _ := remove(many)
	t.Logf("%.2f writes for a deletion alone, %.2f with watches %s behind, %.2f for each of %d at a time", needed, behind, delay, together, many)
	if behind > 1.2*needed {
		t.Errorf("with watches %s behind a deletion makes %.2f writes, alone %.2f", delay, behind, needed)
	}
	if together > 1.2*needed {
		t.Errorf("each of %d deletions makes %.2f writes, alone %.2f", many, together, needed)
	}
	e.sound()
}
