package main

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/rs/zerolog"
	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	"k8s.io/cri-streaming/pkg/streaming/portforward"

	karpv1 "millwright/api/karpenter/v1"
	deployed "millwright/deploy/manifests"
	"millwright/events/membus"
	"millwright/planner"
	"millwright/planner/ledger"
	"millwright/planner/world"
	"millwright/services/console"
	"millwright/store/audit"
	"millwright/store/memlog"
	"millwright/tools/clustertest"
)

const consolePort = 8444

// site is a real control plane with the chart's objects, a console with the rights that the chart gives it,
// and a Node at whose end the code of a kubelet forwards to the console. There are no containers.
type site struct {
	*testing.T
	cluster *clustertest.Cluster
	core    kubernetes.Interface
	log     *memlog.Log
	proposal,
	address string
}

func newSite(t *testing.T) *site {
	t.Helper()
	s := &site{T: t, cluster: clustertest.Start(t), log: memlog.New("test")}
	var err error
	s.core, err = kubernetes.NewForConfig(s.cluster.Config)
	s.check(err)
	objects, err := clustertest.Decode(deployed.Embedded)
	s.check(err)
	applier, err := clustertest.NewApplier(s.cluster.Config, "test")
	s.check(err)
	s.check(applier.Apply(t.Context(), slices.DeleteFunc(objects, func(o *unstructured.Unstructured) bool {
		return !slices.Contains([]string{"ServiceAccount", "ClusterRole", "ClusterRoleBinding", "Role", "RoleBinding", "Service", "ConfigMap"}, o.GetKind())
	})...))
	s.propose()
	s.launch()
	s.serve()
	return s
}

func (s *site) check(err error) {
	s.Helper()
	if err != nil {
		s.Fatal(err)
	}
}

// propose appends a command that waits for approval.
func (s *site) propose() {
	d, err := audit.DecisionDraft(planner.Basis{Now: time.Now()}, planner.Decision{Kind: ledger.KindCommandProposed, Payload: &ledger.CommandProposed{
		Command: ledger.CommandStarted{Reason: "Empty", Method: "emptiness", Candidates: []ledger.Candidate{{Node: "node-a", Claim: "claim-a", NodePool: "p", Price: 96_000}}, PriceBefore: 96_000},
		Expires: time.Now().Add(time.Hour), Policies: []string{"ask"}}})
	s.check(err)
	d.Service, d.Mode, d.Time = ledger.ServiceDisruptor, string(ledger.ModeActive), time.Now()
	rec, err := s.log.Append(s.Context(), d)
	s.check(err)
	s.proposal = ledger.CommandID(s.log.ID(), rec.Seq)
}

// launch appends an instance that was launched and has failed.
func (s *site) launch() {
	d, err := audit.DecisionDraft(planner.Basis{Now: time.Now()}, planner.Decision{Kind: ledger.KindProvisioningPlanned, Payload: &ledger.ProvisioningPlanned{
		Claims: []ledger.PlannedClaim{{NodePool: "p", NodeClassRef: karpv1.NodeClassReference{Name: "default"}}}}})
	s.check(err)
	d.Service, d.Mode, d.Time = ledger.ServiceProvisioner, string(ledger.ModeActive), time.Now()
	rec, err := s.log.Append(s.Context(), d)
	s.check(err)
	claim := ledger.ClaimName(s.log.ID(), "p", rec.Seq, 0)
	for kind, payload := range map[ledger.Kind]any{
		ledger.KindLaunched:    &ledger.Launched{Claim: claim, InstanceID: "i-1", InstanceType: "m5.large", Zone: "a", CapacityType: "spot", ImageID: "ami-bad", Price: 1},
		ledger.KindClaimDoomed: &ledger.ClaimDoomed{Claim: claim, Reason: "unhealthy", Failed: &ledger.FailedInstance{ImageID: "ami-bad", InstanceType: "m5.large", Zone: "a"}},
	} {
		d, err := audit.OutcomeDraft(audit.Outcome{Kind: kind, Payload: payload})
		s.check(err)
		d.Service, d.Mode, d.Time = ledger.ServiceLifecycle, string(ledger.ModeActive), time.Now()
		_, err = s.log.Append(s.Context(), d)
		s.check(err)
	}
}

// squeezed is a text with one space where it has several.
func squeezed(s string) string {
	return strings.Join(strings.FieldsFunc(s, func(r rune) bool { return r == ' ' }), " ")
}

// serve runs the console with its own account, until the test ends.
func (s *site) serve() {
	config := rest.AnonymousClientConfig(s.cluster.Config)
	config.BearerToken = s.token(deployed.Namespace, "millwright")
	core, err := kubernetes.NewForConfig(config)
	s.check(err)
	c := console.New(console.Config{
		Settings: console.Settings{Address: "127.0.0.1:0", TrustConfigMap: deployed.Namespace + "/millwright-console"},
		Cluster:  "test", Version: "1", Core: core, Log: s.log, Stream: membus.NewBus().Connect(membus.QueueMax), Now: time.Now, Logger: zerolog.New(zerolog.NewTestWriter(s)), Registerer: prometheus.NewRegistry(),
		Versions: func() (*world.World, *ledger.Ledger, error) {
			l, err := audit.PresentLedger(context.Background(), s.log)
			return world.New(), l, err
		},
	})
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- c.Run(ctx) }()
	s.Cleanup(func() { cancel(); <-ended })
	s.eventually("the console listens", func() bool { return c.Address() != nil })
	s.address = c.Address().String()
}

func (s *site) eventually(what string, ok func() bool) {
	s.Helper()
	for deadline := time.Now().Add(30 * time.Second); !ok(); time.Sleep(20 * time.Millisecond) {
		if time.Now().After(deadline) {
			s.Fatalf("timed out: %s", what)
		}
	}
}

// pod makes the console's Pod on a Node that forwards to where the console is.
func (s *site) pod() {
	kubelet := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		parts := strings.Split(r.URL.Path, "/")
		if len(parts) != 4 || parts[1] != "portForward" || parts[2] != deployed.Namespace || parts[3] != "millwright-0" {
			http.NotFound(w, r)
			return
		}
		portforward.ServePortForward(w, r, forwarder(s.address), parts[3], "", &portforward.V4Options{}, time.Minute, 10*time.Second, portforward.SupportedProtocols)
	}))
	s.Cleanup(kubelet.Close)
	_, text, err := net.SplitHostPort(kubelet.Listener.Addr().String())
	s.check(err)
	port, err := strconv.Atoi(text)
	s.check(err)
	nodes, pods := s.core.CoreV1().Nodes(), s.core.CoreV1().Pods(deployed.Namespace)
	node, err := nodes.Create(s.Context(), &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "with-console"}}, metav1.CreateOptions{})
	s.check(err)
	s.eventually("the Node says where its kubelet is", func() bool { // others change it too
		node, err := nodes.Get(s.Context(), node.Name, metav1.GetOptions{})
		s.check(err)
		node.Status.Addresses = []corev1.NodeAddress{{Type: corev1.NodeInternalIP, Address: "127.0.0.1"}}
		node.Status.DaemonEndpoints.KubeletEndpoint.Port = int32(port)
		node.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue, LastHeartbeatTime: metav1.Now()}}
		_, err = nodes.UpdateStatus(s.Context(), node, metav1.UpdateOptions{})
		return err == nil
	})
	no := false
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: "millwright-0", Labels: map[string]string{"app.kubernetes.io/name": "millwright", "app.kubernetes.io/instance": "millwright",
			"app.kubernetes.io/component": "all"}},
		Spec: corev1.PodSpec{NodeName: "with-console", ServiceAccountName: "millwright", AutomountServiceAccountToken: &no,
			Containers: []corev1.Container{{Name: "controller", Image: "millwright", Ports: []corev1.ContainerPort{{Name: "https-console", ContainerPort: consolePort}}}}},
	}
	s.eventually("the pod is accepted", func() bool {
		_, err := pods.Create(s.Context(), pod, metav1.CreateOptions{})
		return err == nil
	})
	s.ready()
}

// ready says that the pod is: nobody else does for long, for the Node has no heartbeat.
func (s *site) ready() {
	pods := s.core.CoreV1().Pods(deployed.Namespace)
	s.eventually("the pod is ready", func() bool {
		p, err := pods.Get(s.Context(), "millwright-0", metav1.GetOptions{})
		if err != nil {
			return false
		}
		p.Status.Phase, p.Status.Conditions = corev1.PodRunning, []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}}
		_, err = pods.UpdateStatus(s.Context(), p, metav1.UpdateOptions{})
		return err == nil
	})
}

// forwarder connects to an address, for the console's port alone.
type forwarder string

func (f forwarder) PortForward(_ context.Context, _, _ string, port int32, stream io.ReadWriteCloser) error {
	if port != consolePort {
		return fmt.Errorf("nothing listens on port %d", port)
	}
	conn, err := net.Dial("tcp", string(f))
	if err != nil {
		return err
	}
	defer conn.Close()
	go func() {
		_, _ = io.Copy(conn, stream)
		_ = conn.(*net.TCPConn).CloseWrite()
	}()
	_, _ = io.Copy(stream, conn) // whoever asks may hang up
	return nil
}

func (s *site) token(namespace, account string) string {
	s.Helper()
	var token string
	s.eventually("there is a token of "+account, func() bool {
		answer, err := s.core.CoreV1().ServiceAccounts(namespace).CreateToken(s.Context(), account, &authenticationv1.TokenRequest{}, metav1.CreateOptions{})
		if err == nil {
			token = answer.Status.Token
		}
		return err == nil
	})
	return token
}

// person makes a kubeconfig of an account with a token and these ClusterRoles, and with the way to the
// console if that is wanted.
func (s *site) person(name string, way bool, roles ...string) string {
	s.Helper()
	_, err := s.core.CoreV1().ServiceAccounts("default").Create(s.Context(), &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: name}}, metav1.CreateOptions{})
	s.check(err)
	subjects := []rbacv1.Subject{{Kind: "ServiceAccount", Name: name, Namespace: "default"}}
	for _, role := range roles {
		_, err := s.core.RbacV1().ClusterRoleBindings().Create(s.Context(), &rbacv1.ClusterRoleBinding{ObjectMeta: metav1.ObjectMeta{Name: name + "-" + role},
			RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: role}, Subjects: subjects}, metav1.CreateOptions{})
		s.check(err)
	}
	if way {
		_, err := s.core.RbacV1().RoleBindings(deployed.Namespace).Create(s.Context(), &rbacv1.RoleBinding{ObjectMeta: metav1.ObjectMeta{Name: name},
			RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: "millwright-console-user"}, Subjects: subjects}, metav1.CreateOptions{})
		s.check(err)
	}
	config, err := clientcmd.LoadFromFile(s.cluster.Kubeconfig)
	s.check(err)
	for _, c := range config.Contexts {
		c.AuthInfo, c.Namespace = name, "shop"
	}
	config.AuthInfos = map[string]*clientcmdapi.AuthInfo{name: {Token: s.token("default", name)}}
	file := filepath.Join(s.TempDir(), name)
	s.check(clientcmd.WriteToFile(*config, file))
	return file
}

// millctl runs a command and returns what it prints, or its error, and the status it would end with.
func (s *site) millctl(kubeconfig string, args ...string) (string, exitStatus) {
	s.Helper()
	var out bytes.Buffer
	c := command()
	c.SetOut(&out)
	c.SetErr(&out)
	c.SetArgs(append(args, "--kubeconfig", kubeconfig))
	err := c.ExecuteContext(s.Context())
	if err != nil {
		fmt.Fprintln(&out, err)
	}
	return out.String(), statusOf(err)
}

func TestByAKubeconfigAlone(t *testing.T) {
	for _, name := range []string{"CLUSTER_NAME", "DATA_DIR", "ETCD_ENDPOINTS", "NATS_URL", "CONSOLE_URL", "CONSOLE_CA_FILE", "CONSOLE_NAMESPACE"} {
		t.Setenv(name, "")
	}
	s := newSite(t)
	admin := s.cluster.Kubeconfig
	expect := func(kubeconfig string, want exitStatus, text string, args ...string) {
		t.Helper()
		s.ready()
		if out, status := s.millctl(kubeconfig, args...); status != want || !strings.Contains(out, text) && !strings.Contains(squeezed(out), text) {
			t.Errorf("millctl %v: status %d, want %d with %q:\n%s", args, status, want, text, out)
		}
	}
	if out, status := s.millctl(admin, "status"); status != statusUnreachable || !strings.Contains(out, "none of its pods is ready") {
		t.Errorf("status %d, %s", status, out)
	}
	s.pod()

	// Who has a client certificate asks as the operator's ServiceAccount.
	expect(admin, 0, s.proposal+"  Proposed", "commands")
	expect(admin, 0, "node-a", "why", "node", "node-a")
	expect(admin, statusFailed, "nothing about command/nowhere", "why", "command", "nowhere")
	expect(admin, statusFailed, "must be one of", "why", "planet", "mars")
	expect(admin, 0, "CommandProposed", "log", "-o", "json", "--kind", "commandproposed")
	expect(admin, statusFailed, "no such kind", "log", "--kind", "commandpropose")
	expect(admin, 0, "test", "status")
	expect(admin, 0, "no roll-out in waves has begun", "rollouts")
	expect(admin, statusFailed, "no roll-out of NodePool p has halted", "rollouts", "resume", "p", "--reason", "fixed")
	expect(admin, 0, "image ami-bad 1 1 1 unhealthy", "health")
	expect(admin, 0, "type/m5.large", "health", "-o", "name", "--since", "1h")
	expect(admin, 0, "reason: Empty", "commands", "-o", "yaml")
	expect(admin, 0, "WHY\n"+s.proposal, "commands", "-o", "wide")
	expect(admin, 0, "command/"+s.proposal, "commands", "-o", "name")
	expect(admin, 0, "step: decided", "why", "node", "node-a", "-o", "yaml")
	expect(admin, 0, "subject: nodeclass/default", "why", "ec2nodeclass", "default", "-o", "yaml")
	expect(admin, 0, "cost over its life: $0.0000 for 1 instance", "why", "nodepool", "p")
	expect(admin, 0, "Since ", "why", "--since", "1h")
	expect(admin, statusFailed, "must not be negative", "why", "--since", "-1h")
	expect(admin, 0, "now: not marked as unavailable", "why", "offering", "m5.large/z1/spot")
	expect(admin, statusFailed, "must be TYPE/ZONE/CAPACITYTYPE", "why", "offering", "m5.large")
	expect(admin, 0, "hash chain intact, says the console", "verify")
	expect(admin, statusFailed, "record 99 is missing", "verify", "--head", "99:"+strings.Repeat("0", 64))
	_, public := keys(t)
	expect(admin, statusFailed, "no head of the log is signed", "verify", "--public-key", public)
	expect(admin, 0, "0 decisions replayed, 0 divergences", "replay")
	expect(admin, 0, "0 decisions replayed, 0 divergences", "replay", "--since", "1h")
	expect(admin, statusFailed, "no record is in that span", "replay", "--from", "99")
	expect(admin, statusFailed, "reads the log itself", "replay", "--save", filepath.Join(t.TempDir(), "x"))
	expect(admin, statusFailed, "not been seen completely yet", "plan", "--server")
	expect(admin, statusFailed, "must be KIND/NAME", "bundle", "--since", "1h", "--object", "planet/mars", "-o", filepath.Join(t.TempDir(), "never"))
	expect(admin, statusFailed, "only decisions can be taken again", "replay", "--record", "2")
	pool := filepath.Join(t.TempDir(), "pool.yaml")
	s.check(os.WriteFile(pool, []byte("apiVersion: karpenter.sh/v1\nkind: NodePool\nmetadata: {name: p}\nspec: {template: {spec: {requirements: []}}}\n"), 0o600))
	expect(admin, statusFailed, "only decisions can be taken again", "replay", "--record", "2", "--with", pool)
	expect(admin, 0, "0 decisions planned again", "replay", "--record", "2", "--option", "node-cost=0.02")
	expect(admin, statusFailed, "--by goes with", "stop", "all", "--reason", "x", "--by", "me")
	expect(admin, 0, "stopped: voluntary", "stop", "voluntary", "--reason", "a look")
	if out, _ := s.millctl(admin, "log", "--kind", "ControlChanged"); !strings.Contains(out, "system:serviceaccount:kube-system:millwright-operator") || !strings.Contains(out, "a look (for ") {
		t.Errorf("the record does not say who stopped:\n%s", out)
	}

	// Who has a token asks with it, and may what they may.
	viewer, operator, stranger := s.person("vera", true, "millwright-viewer"), s.person("otto", true, "millwright-operator"), s.person("nick", false)
	expect(viewer, statusUnreachable, "--console-namespace", "status")
	here := []string{"--console-namespace", deployed.Namespace}
	expect(viewer, 0, s.proposal, append(here, "commands")...)
	expect(viewer, statusFailed, "nothing about capacitybuffer/shop/web", append(here, "why", "cb", "web")...)
	expect(viewer, statusFailed, "nothing about capacitybuffer/other/web", append(here, "why", "cb", "web", "-n", "other")...)
	expect(viewer, statusDenied, "millwright-operator", append(here, "approve", s.proposal, "--reason", "me too")...)
	expect(operator, 0, "approved "+s.proposal, append(here, "approve", s.proposal, "--reason", "nobody needs it")...)
	expect(operator, statusFailed, "answered already", append(here, "reject", s.proposal, "--reason", "again")...)
	if out, _ := s.millctl(operator, append(here, "log", "--kind", "ProposalAnswered")...); !strings.Contains(out, "system:serviceaccount:default:otto") {
		t.Errorf("the record does not say who approved:\n%s", out)
	}
	file := filepath.Join(t.TempDir(), "incident")
	expect(viewer, statusDenied, "may not get bundles.millwright.sh", append(here, "bundle", "--since", "1h", "-o", file)...)
	if _, err := os.Stat(file); !os.IsNotExist(err) {
		t.Errorf("something is left of what was refused: %v", err)
	}
	expect(operator, 0, "0 decisions replayed, 0 divergences", append(here, "bundle", "--object", "node/node-a", "--reason", "for the vendor", "-o", file)...)
	expect(operator, statusFailed, "is there already", append(here, "bundle", "--since", "1h", "-o", file)...)
	expect(viewer, 0, "taken by system:serviceaccount:default:otto: for the vendor", append(here, "log", "--kind", "BundleTaken")...)
	expect(stranger, statusUnreachable, "forbidden", append(here, "status")...)

	// To a console that was only found nobody's own token is sent.
	expect(s.person("finn", true, "millwright-operator", "view"), statusUnreachable, "your own is sent only to a console whose namespace you name", "status")

	// What pretends to be the console is not asked.
	maps := s.core.CoreV1().ConfigMaps(deployed.Namespace)
	published, err := maps.Get(t.Context(), "millwright-console", metav1.GetOptions{})
	s.check(err)
	other := httptest.NewTLSServer(http.NotFoundHandler())
	defer other.Close()
	mine := s.address
	s.address = strings.TrimPrefix(other.URL, "https://")
	expect(admin, statusUnreachable, "certificate", "status")
	s.address = mine
	published.Data = nil
	s.completes(admin)
	_, err = maps.Update(t.Context(), published, metav1.UpdateOptions{})
	s.check(err)
	expect(admin, statusUnreachable, "no certificate is published", "status")
}

// completes offers the names that there are.
func (s *site) completes(kubeconfig string) {
	s.Helper()
	for _, c := range []struct{ args, want string }{
		{"why ", "nodeclaim"},
		{"why node with", "with-console"},
		{"why instance i", "i-1"},
		{"why command ", s.proposal},
		{"log --object instance/i", "instance/i-1"},
		{"log --object no", "nodeclass/"},
		{"log --kind Laun", "LaunchFailed"},
		{"commands -o ", "wide"},
		{"why pod " + deployed.Namespace + "/mill", deployed.Namespace + "/millwright-0"},
	} {
		args := append([]string{"__complete", "--kubeconfig", kubeconfig}, strings.Split(c.args, " ")...)
		var out bytes.Buffer
		cmd := command()
		cmd.SetOut(&out)
		cmd.SetErr(io.Discard)
		cmd.SetArgs(args)
		if err := cmd.ExecuteContext(s.Context()); err != nil || !strings.Contains(out.String(), c.want) {
			s.Errorf("%q completes to %q, %v", c.args, out.String(), err)
		}
	}
}

// A kubeconfig that is not there says what to do.
func TestWithoutAKubeconfig(t *testing.T) {
	for _, name := range []string{"KUBECONFIG", "KUBERNETES_SERVICE_HOST", "DATA_DIR", "ETCD_ENDPOINTS", "CONSOLE_URL"} {
		t.Setenv(name, "")
	}
	t.Setenv("HOME", t.TempDir())
	c := command()
	c.SetArgs([]string{"status"})
	if err := c.ExecuteContext(t.Context()); statusOf(err) != statusUnreachable || !strings.Contains(err.Error(), "--kubeconfig") || !strings.Contains(err.Error(), "--data-dir") {
		t.Error(err)
	}
}

// By its other name it is a plugin of kubectl, and says so.
func TestAsAPluginOfKubectl(t *testing.T) {
	reader, writer, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	stdout := os.Stdout
	os.Stdout = writer
	defer func() { os.Stdout = stdout }()
	for name, want := range map[string]string{"/usr/bin/kubectl-millwright": "kubectl millwright why", "/usr/bin/millctl": "millctl why"} {
		if status := run([]string{name, "why", "--help"}); status != 0 {
			t.Fatal(status)
		}
		text := make([]byte, 64<<10)
		n, _ := reader.Read(text)
		if !strings.Contains(string(text[:n]), "\n  "+want+" pod|node") {
			t.Errorf("%s: %s", name, text[:n])
		}
	}
	if status := run([]string{"kubectl_complete-millwright", "why", "nodec"}); status != 0 {
		t.Fatal(status)
	}
	text := make([]byte, 64<<10)
	if n, _ := reader.Read(text); !strings.Contains(string(text[:n]), "nodeclaim") {
		t.Errorf("%s", text[:n])
	}
}
