package e2e

import (
	"cmp"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"millwright/store/etcdlog"
	"millwright/tools/clustertest"
	"millwright/tools/stack"
)

// chartServers are the etcd and NATS of the chart, run here as processes: with the arguments, environment and
// configuration of their StatefulSets, and with the Secrets that `millwright certificates` makes under the
// rights of its own account.
type chartServers struct {
	*testing.T
	cluster        *clustertest.Cluster
	dir, namespace string
	kube           kubernetes.Interface
	objects        []*unstructured.Unstructured
	// ports of members by server: client, peer, metrics.
	ports map[string][3][3]int
	// members are the processes of the servers, by server and number.
	members map[string]*exec.Cmd
}

// TestServersOfTheChart: pods get nodes with the etcd and NATS that the chart brings. Each service is a user
// of etcd by its own certificate, and nobody else has access.
func TestServersOfTheChart(t *testing.T) {
	s := installServers(t, clustertest.Start(t), "mode: distributed\n")
	e := s.start()
	e.apply(defaultClass)
	e.apply(defaultPool)
	e.deploy("web", 1, "1", "1Gi")
	e.running("web", 1)
	for _, finding := range []string{"nats_no_jetstream", "nats_one_server"} {
		e.hasMetric("lifecycle", `millwright_unsafe_setting{finding="`+finding+`"}`, is(0))
	}
	s.monitoredByTLS()
	s.probesAreAnswered()
	e.scale("web", 0)
	e.clean()
	e.sound()
	s.strangersAreRefused()
}

// monitoredByTLS: NATS serves its monitoring pages by the certificate of the chart, and not without TLS.
func (s *chartServers) monitoredByTLS() {
	s.Helper()
	for member := range s.ports["nats"] {
		if err := s.healthy(member); err != nil {
			s.Error(err)
		}
		page := strings.Replace(s.monitoring(member), "https:", "http:", 1) + "/varz"
		resp, err := http.Get(page)
		if err != nil {
			continue
		}
		resp.Body.Close()
		if resp.StatusCode != http.StatusBadRequest { // which is what a TLS server of Go's answers to HTTP
			s.Errorf("get %s: %s", page, resp.Status)
		}
	}
}

// probesAreAnswered asks each member what the probes of its pod ask, as the kubelet does: without a
// certificate, and without looking at that of the server.
func (s *chartServers) probesAreAnswered() {
	s.Helper()
	client := &http.Client{Timeout: convergence, Transport: &http.Transport{DisableKeepAlives: true, TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}}
	for server, members := range s.ports {
		containers, _, err := unstructured.NestedSlice(s.object("StatefulSet", "millwright-"+server), "spec", "template", "spec", "containers")
		if err != nil || len(containers) != 1 {
			s.Fatal(err, len(containers))
		}
		for _, name := range []string{"startupProbe", "livenessProbe", "readinessProbe"} {
			ask, found, err := unstructured.NestedStringMap(containers[0].(map[string]any), name, "httpGet")
			if err != nil || !found || ask["port"] != "metrics" {
				s.Fatalf("%s of %s asks %v: %v", name, server, ask, err)
			}
			scheme := cmp.Or(strings.ToLower(ask["scheme"]), "http")
			for _, ports := range members {
				resp, err := client.Get(fmt.Sprintf("%s://127.0.0.1:%d%s", scheme, ports[2], ask["path"]))
				if err != nil {
					s.Errorf("%s of %s: %v", name, server, err)
					continue
				}
				resp.Body.Close()
				if resp.StatusCode != http.StatusOK {
					s.Errorf("%s of %s: %s", name, server, resp.Status)
				}
			}
		}
	}
}

// monitoring is the address of a member of NATS's monitoring pages.
func (s *chartServers) monitoring(member int) string {
	return fmt.Sprintf("https://127.0.0.1:%d", s.ports["nats"][member][2])
}

// healthy asks a member of NATS as the kubelet's probe does, which has no certificate, but verifies that of
// the member.
func (s *chartServers) healthy(member int) error {
	s.Helper()
	ca, err := os.ReadFile(filepath.Join(s.dir, "millwright-nats-server", "ca.crt"))
	if err != nil {
		s.Fatal(err)
	}
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(ca)
	client := &http.Client{Timeout: convergence, Transport: &http.Transport{DisableKeepAlives: true, TLSClientConfig: &tls.Config{RootCAs: roots, MinVersion: tls.VersionTLS12}}}
	resp, err := client.Get(s.monitoring(member) + "/healthz?js-server-only=true")
	if err != nil {
		return err
	}
	resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return fmt.Errorf("get %s: %s", resp.Request.URL, resp.Status)
	}
	return nil
}

// installServers installs the chart, whose servers are run by start.
func installServers(t *testing.T, cluster *clustertest.Cluster, values string) *chartServers {
	t.Helper()
	s := &chartServers{T: t, cluster: cluster, dir: t.TempDir(), namespace: "servers", ports: map[string][3][3]int{}, members: map[string]*exec.Cmd{}, kube: kubernetes.NewForConfigOrDie(cluster.Config)}
	if _, err := s.kube.CoreV1().Namespaces().Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: s.namespace}}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	rendered, err := chart(t, "millwright", values, "--namespace", s.namespace, "--set", "settings.clusterName="+stack.ClusterName)
	if err != nil {
		t.Fatal(err)
	}
	install(t, cluster.Config, rendered)
	if s.objects, err = clustertest.Decode(rendered); err != nil {
		t.Fatal(err)
	}
	s.choosePorts()
	return s
}

// start runs `millwright certificates`, etcd and NATS by the Secrets, and a stack of the five services on
// them.
func (s *chartServers) start(flags ...string) *env {
	s.Helper()
	s.keepCertificates(flags...)
	for _, name := range append([]string{"etcd-server", "nats-server", "nats-users"}, clientSecrets()...) {
		s.fetch("millwright-" + name)
	}
	for i := range 3 {
		s.serve("etcd", i)
		s.serve("nats", i)
	}
	return start(s.T, func(o *stack.Options) {
		o.FiveProcesses = true
		o.External = &stack.External{EtcdEndpoints: s.addresses("etcd", "https://"), WatcherURL: s.addresses("nats", "tls://watcher:"+s.password("watcher")+"@"),
			ReaderURL: s.addresses("nats", "tls://reader:"+s.password("reader")+"@"), Flags: s.certificates("lifecycle")}
		o.ServiceArgs = map[string][]string{}
		for _, service := range stack.Services {
			o.ServiceArgs[service] = s.certificates(service)
		}
		o.ServiceArgs["lifecycle"] = append(o.ServiceArgs["lifecycle"], "--nats-monitoring-urls", strings.Join([]string{s.monitoring(0), s.monitoring(1), s.monitoring(2)}, ","))
	})
}

// keepCertificates runs `millwright certificates`. It looks at everything when it starts, and then every ten
// minutes.
func (s *chartServers) keepCertificates(flags ...string) {
	s.Helper()
	s.process("certificates", exec.Command(s.binary("millwright"), append([]string{"certificates", "--kubeconfig", s.kubeconfig(s.cluster, "millwright-certificates"),
		"--cluster-name", stack.ClusterName, "--system-namespace", s.namespace, "--etcd-endpoints", s.addresses("etcd", "https://"),
		"--metrics-port", s.freePort(), "--health-probe-port", s.freePort()}, flags...)...))
}

// clientSecrets are those of the services, without the chart's prefix.
func clientSecrets() (names []string) {
	for _, service := range stack.Services {
		names = append(names, "client-"+service)
	}
	return names
}

// strangersAreRefused: a certificate of the CA whose name is no user gives no access to the log.
func (s *chartServers) strangersAreRefused() {
	s.Helper()
	endpoints := s.addresses("etcd", "https://")
	in := filepath.Join(s.dir, "millwright-nats-server")
	client, err := etcdlog.Dial(etcdlog.DialConfig{Endpoints: strings.Split(endpoints, ","), Security: etcdlog.Security{
		CAFile: filepath.Join(in, "ca.crt"), CertFile: filepath.Join(in, "tls.crt"), KeyFile: filepath.Join(in, "tls.key")}})
	if err != nil {
		s.Fatal(err)
	}
	defer client.Close()
	if log, err := etcdlog.Open(s.Context(), etcdlog.Config{Client: client, Cluster: stack.ClusterName, MustExist: true}); err == nil {
		s.Error("a stranger opened the log")
		_ = log.Close()
	} else if !strings.Contains(err.Error(), "permission denied") && !strings.Contains(err.Error(), "user name") {
		s.Errorf("a stranger is refused by %v", err)
	}
}

func (s *chartServers) binary(name string) string {
	s.Helper()
	bin, err := clustertest.Binary(name)
	if err != nil {
		s.Fatal(err)
	}
	return bin
}

func (s *chartServers) freePort() string {
	s.Helper()
	port, err := stack.FreePort()
	if err != nil {
		s.Fatal(err)
	}
	return fmt.Sprint(port)
}

func (s *chartServers) choosePorts() {
	for _, server := range []string{"etcd", "nats"} {
		var all [3][3]int
		for i := range 3 {
			for j := range 3 {
				port, err := stack.FreePort()
				if err != nil {
					s.Fatal(err)
				}
				all[i][j] = port
			}
		}
		s.ports[server] = all
	}
}

// addresses of the members of a server, for clients.
func (s *chartServers) addresses(server, prefix string) string {
	var all []string
	for _, ports := range s.ports[server] {
		all = append(all, fmt.Sprintf("%s127.0.0.1:%d", prefix, ports[0]))
	}
	return strings.Join(all, ",")
}

// process runs a command until the test ends.
func (s *chartServers) process(name string, cmd *exec.Cmd) {
	s.Helper()
	runProcess(s.T, name, filepath.Join(s.dir, name+".log"), cmd)
}

// runProcess runs a command until the test ends, and prints the end of its log if the test fails.
func runProcess(t *testing.T, name, file string, cmd *exec.Cmd) {
	t.Helper()
	log, err := os.Create(file)
	if err != nil {
		t.Fatal(err)
	}
	cmd.Stdout, cmd.Stderr = log, log
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
		_ = log.Close()
		if t.Failed() {
			text, _ := os.ReadFile(log.Name())
			t.Logf("%s:\n%s", name, text[max(0, len(text)-3000):])
		}
	})
}

// kubeconfig of a ServiceAccount of the chart.
func (s *chartServers) kubeconfig(cluster *clustertest.Cluster, account string) string {
	s.Helper()
	token, err := s.kube.CoreV1().ServiceAccounts(s.namespace).CreateToken(s.Context(), account, &authenticationv1.TokenRequest{}, metav1.CreateOptions{})
	if err != nil {
		s.Fatal(err)
	}
	admin, err := clientcmd.LoadFromFile(cluster.Kubeconfig)
	if err != nil {
		s.Fatal(err)
	}
	for _, c := range admin.Contexts {
		c.AuthInfo = account
	}
	admin.AuthInfos = map[string]*clientcmdapi.AuthInfo{account: {Token: token.Status.Token}}
	file := filepath.Join(s.dir, account+".kubeconfig")
	if err := clientcmd.WriteToFile(*admin, file); err != nil {
		s.Fatal(err)
	}
	return file
}

// fetch waits for a Secret and writes it to a directory of its name.
func (s *chartServers) fetch(name string) {
	s.Helper()
	deadline := time.Now().Add(convergence)
	for {
		secret, err := s.kube.CoreV1().Secrets(s.namespace).Get(s.Context(), name, metav1.GetOptions{})
		if err == nil {
			dir := filepath.Join(s.dir, name)
			if err := os.MkdirAll(dir, 0o700); err != nil {
				s.Fatal(err)
			}
			for key, data := range secret.Data {
				if err := os.WriteFile(filepath.Join(dir, key), data, 0o600); err != nil {
					s.Fatal(err)
				}
			}
			return
		}
		if time.Now().After(deadline) {
			s.Fatal(err)
		}
		time.Sleep(200 * time.Millisecond)
	}
}

func (s *chartServers) password(user string) string {
	s.Helper()
	text, err := os.ReadFile(filepath.Join(s.dir, "millwright-nats-users", user))
	if err != nil {
		s.Fatal(err)
	}
	return string(text)
}

// certificates are the flags of a service that name the files of the Secret which its pods mount.
func (s *chartServers) certificates(service string) []string {
	in := filepath.Join(s.dir, "millwright-client-"+service)
	var flags []string
	for _, server := range []string{"etcd", "nats"} {
		flags = append(flags, "--"+server+"-ca-file", filepath.Join(in, "ca.crt"), "--"+server+"-cert-file", filepath.Join(in, "tls.crt"),
			"--"+server+"-key-file", filepath.Join(in, "tls.key"))
	}
	return flags
}

func (s *chartServers) object(kind, name string) map[string]any {
	s.Helper()
	for _, o := range s.objects {
		if o.GetKind() == kind && o.GetName() == name {
			return o.Object
		}
	}
	s.Fatalf("the chart has no %s %s", kind, name)
	return nil
}

// serve runs a member as its StatefulSet says, on ports of this machine.
func (s *chartServers) serve(server string, member int) {
	s.Helper()
	name := fmt.Sprintf("millwright-%s", server)
	containers, _, err := unstructured.NestedSlice(s.object("StatefulSet", name), "spec", "template", "spec", "containers")
	if err != nil || len(containers) != 1 {
		s.Fatal(err, len(containers))
	}
	container := containers[0].(map[string]any)
	dir := filepath.Join(s.dir, fmt.Sprintf("%s-%d", name, member))
	if err := os.MkdirAll(dir, 0o700); err != nil {
		s.Fatal(err)
	}
	numbers := map[string][3]string{"etcd": {"2379", "2380", "2381"}, "nats": {"4222", "6222", "8222"}}[server]
	pairs := []string{"$(POD_NAME)." + name, fmt.Sprintf("%s-%d.%s", name, member, name), "$(POD_NAME)", fmt.Sprintf("%s-%d", name, member)}
	expand := strings.NewReplacer(pairs...)
	pairs = []string{"/data", dir, "/etc/millwright/tls", filepath.Join(s.dir, name+"-server"), "/etc/millwright/nats", dir}
	for i, ports := range s.ports[server] {
		for j, number := range numbers {
			pairs = append(pairs, fmt.Sprintf("%s-%d.%s.%s.svc:%s", name, i, name, s.namespace, number), fmt.Sprintf("127.0.0.1:%d", ports[j]))
		}
	}
	for j, number := range numbers {
		own := fmt.Sprint(s.ports[server][member][j])
		pairs = append(pairs, "0.0.0.0:"+number, "127.0.0.1:"+own, "https_port="+number, "https_port="+own)
	}
	here := strings.NewReplacer(pairs...)
	var args []string
	for _, a := range container["args"].([]any) {
		args = append(args, here.Replace(expand.Replace(a.(string))))
	}
	binary := server
	if server == "nats" {
		binary = "nats-server"
		args = append(args, "--addr", "127.0.0.1", "--port", fmt.Sprint(s.ports[server][member][0]))
		files, _, err := unstructured.NestedStringMap(s.object("ConfigMap", name), "data")
		if err != nil {
			s.Fatal(err)
		}
		for file, text := range files {
			if err := os.WriteFile(filepath.Join(dir, file), []byte(text), 0o600); err != nil {
				s.Fatal(err)
			}
		}
	}
	cmd := exec.Command(s.binary(binary), args...)
	cmd.Env = os.Environ()
	for _, variable := range container["env"].([]any) {
		v := variable.(map[string]any)
		value, _ := v["value"].(string)
		if from, ok := v["valueFrom"].(map[string]any); ok {
			value = fmt.Sprintf("%s-%d", name, member)
			if ref, ok := from["secretKeyRef"].(map[string]any); ok {
				value = s.password(ref["key"].(string))
			}
		}
		cmd.Env = append(cmd.Env, v["name"].(string)+"="+here.Replace(value))
	}
	process := fmt.Sprintf("%s-%d", server, member)
	s.members[process] = cmd
	s.process(process, cmd)
}
