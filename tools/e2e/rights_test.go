package e2e

import (
	"bufio"
	"bytes"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"

	"millwright/deploy/manifests"
	"millwright/tools/clustertest"
	"millwright/tools/stack"
)

// auditPolicy has the API server record what Millwright's ServiceAccounts request.
const auditPolicy = `
apiVersion: audit.k8s.io/v1
kind: Policy
omitStages: [RequestReceived]
rules:
- {level: Metadata, userGroups: ["system:serviceaccounts:kube-system"]}
- {level: None}
`

const accountPrefix = "system:serviceaccount:" + manifests.Namespace + ":"

// right is a verb on a resource (with its subresource) of an API group.
type right struct{ account, verb, group, resource string }

func (r right) String() string {
	return fmt.Sprintf("%s: %s %s.%s", r.account, r.verb, r.resource, r.group)
}

// asked are the rights that services used in any test of this run.
var asked = struct {
	sync.Mutex
	rights map[right]bool
}{rights: map[right]bool{}}

const (
	repeats    = "client-go patches a KubeEvent that repeats"
	oneProcess = "the tests that need it run all services in one process, whose account has it too"
	scalables  = "the CapacityBuffers of the tests refer to Deployments"
)

// unasked are rights that no test reliably makes a service use, each with the reason why it is granted.
var unasked = map[right]string{
	{"millwright", "watch", "apps", "statefulsets"}: scalables,
	{"millwright", "watch", "apps", "replicasets"}:  scalables,

	{"millwright-watcher", "watch", "autoscaling.x-k8s.io", "capacitybuffers"}: oneProcess,
	{"millwright-watcher", "watch", "", "podtemplates"}:                        oneProcess,
	{"millwright-watcher", "watch", "apps", "deployments"}:                     oneProcess,
	{"millwright-watcher", "watch", "apps", "statefulsets"}:                    scalables,
	{"millwright-watcher", "watch", "apps", "replicasets"}:                     scalables,
	{"millwright-watcher", "patch", "", "events"}:                              repeats,

	{"millwright-provisioner", "patch", "", "events"}: repeats,

	{"millwright-disruptor", "patch", "", "events"}:                                 repeats,
	{"millwright-disruptor", "get", "millwright.sh", "disruptionpolicies"}:          oneProcess,
	{"millwright-disruptor", "patch", "millwright.sh", "disruptionpolicies/status"}: oneProcess,

	{"millwright-terminator", "patch", "", "events"}: repeats,
	{"millwright-terminator", "delete", "", "pods"}:  oneProcess,

	{"millwright-lifecycle", "patch", "", "events"}:                                         repeats,
	{"millwright-lifecycle", "patch", "karpenter.sh", "nodeoverlays/status"}:                oneProcess,
	{"millwright-lifecycle", "patch", "autoscaling.x-k8s.io", "capacitybuffers/status"}:     oneProcess,
	{"millwright-lifecycle", "get", "apiextensions.k8s.io", "customresourcedefinitions"}:    oneProcess,
	{"millwright-lifecycle", "create", "apiextensions.k8s.io", "customresourcedefinitions"}: oneProcess,
}

// auditArgs make a cluster keep an audit log in dir.
func auditArgs(t *testing.T, dir string) []string {
	t.Helper()
	policy := filepath.Join(dir, "audit-policy.yaml")
	if err := os.WriteFile(policy, []byte(auditPolicy), 0o600); err != nil {
		t.Fatal(err)
	}
	return []string{"--kube-apiserver-arg", "--audit-policy-file=" + policy, "--kube-apiserver-arg", "--audit-log-path=" + auditLog(dir)}
}

func auditLog(dir string) string { return filepath.Join(dir, "audit.log") }

// readAudit collects what Millwright's accounts requested, and fails if any of it was forbidden, except for
// what their roles grant: an API server that has just started does not know the roles yet.
func readAudit(t *testing.T, dir string) {
	t.Helper()
	data, err := os.ReadFile(auditLog(dir))
	if err != nil {
		t.Errorf("read audit log: %v", err)
		return
	}
	var roles []right
	for _, data := range [][]byte{manifests.Embedded, manifests.Distributed} {
		all, err := granted(data)
		if err != nil {
			t.Error(err)
		}
		roles = append(roles, all...)
	}
	asked.Lock()
	defer asked.Unlock()
	refused := map[right]bool{}
	lines := bufio.NewScanner(bytes.NewReader(data))
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		r, allowed, ok := parseAudit(lines.Bytes())
		if !ok {
			continue
		}
		if allowed {
			asked.rights[r] = true
		} else if !refused[r] && !slices.Contains(roles, r) {
			refused[r] = true
			t.Errorf("the API server refused %s", r)
		}
	}
}

// parseAudit reads one line of an audit log; ok is false unless it is about a resource and one of
// Millwright's accounts.
func parseAudit(line []byte) (_ right, allowed, ok bool) {
	e := struct {
		Verb        string
		User        struct{ Username string }
		ObjectRef   *struct{ Resource, Subresource, APIGroup string }
		Annotations map[string]string
	}{}
	account, ours := "", false
	if err := json.Unmarshal(line, &e); err == nil && e.ObjectRef != nil {
		account, ours = strings.CutPrefix(e.User.Username, accountPrefix)
	}
	if !ours || !strings.HasPrefix(account, "millwright") {
		return right{}, false, false
	}
	resource := e.ObjectRef.Resource
	if e.ObjectRef.Subresource != "" {
		resource += "/" + e.ObjectRef.Subresource
	}
	return right{account, e.Verb, e.ObjectRef.APIGroup, resource}, e.Annotations["authorization.k8s.io/decision"] == "allow", true
}

// granted are the rights that the roles in manifests give to accounts.
func granted(data []byte) ([]right, error) {
	objects, err := clustertest.Decode(data)
	if err != nil {
		return nil, err
	}
	var all []right
	for _, o := range objects {
		if k := o.GetKind(); k != "ClusterRole" && k != "Role" {
			continue
		}
		rules, err := rulesOf(o)
		if err != nil {
			return nil, fmt.Errorf("%s %s: %w", o.GetKind(), o.GetName(), err)
		}
		account := strings.TrimSuffix(o.GetName(), "-dns")
		for _, rule := range rules {
			for _, group := range rule.APIGroups {
				for _, resource := range rule.Resources {
					for _, verb := range rule.Verbs {
						all = append(all, right{account, verb, group, resource})
					}
				}
			}
		}
	}
	people := []string{"-admin", "-viewer", "-operator", "-user"}
	return slices.DeleteFunc(all, func(r right) bool {
		return slices.ContainsFunc(people, func(suffix string) bool { return strings.HasSuffix(r.account, suffix) })
	}), nil
}

func rulesOf(o *unstructured.Unstructured) ([]rbacv1.PolicyRule, error) {
	role := struct {
		Rules []rbacv1.PolicyRule `json:"rules"`
	}{}
	err := runtime.DefaultUnstructuredConverter.FromUnstructured(o.Object, &role)
	return role.Rules, err
}

// TestMain checks, after all tests have run, for rights that the roles grant and that no service used.
func TestMain(m *testing.M) {
	flag.Parse()
	code := m.Run()
	if filter := flag.Lookup("test.run").Value.String() + flag.Lookup("test.skip").Value.String(); filter == "" && code == 0 {
		printUnused()
	}
	os.Exit(code)
}

// printUnused names the rights, so that somebody removes them from the roles or writes the test that needs
// them.
func printUnused() {
	for _, data := range [][]byte{manifests.Embedded, manifests.Distributed} {
		all, err := granted(data)
		if err != nil {
			fmt.Println("read roles:", err)
			return
		}
		for _, r := range all {
			if !used(r) && unasked[r] == "" {
				fmt.Printf("no test made a service use a right that its role grants: %s\n", r)
			}
		}
	}
}

// used reports whether a test made a service use a right. The account of mode embedded has the sum of all
// roles, so for it the use by any service counts. Who may watch may also list: client-go lists if the API
// server cannot send the present state by the watch itself.
func used(r right) bool {
	if r.verb == "list" {
		watch := r
		watch.verb = "watch"
		return usedItself(r) || usedItself(watch) || unasked[watch] != ""
	}
	return usedItself(r)
}

func usedItself(r right) bool {
	if asked.rights[r] || r.account != stack.AccountOf("all") {
		return asked.rights[r]
	}
	return slices.ContainsFunc(stack.Services, func(service string) bool {
		r.account = stack.AccountOf(service)
		return asked.rights[r]
	})
}

// TestARightBeyondARoleIsRefused requests, as each service, one thing that only another may do.
func TestARightBeyondARoleIsRefused(t *testing.T) {
	e := start(t, func(o *stack.Options) { o.FiveProcesses = true })
	for account, beyond := range map[string]right{
		"watcher":     {verb: "patch", resource: "nodes"},
		"provisioner": {verb: "create", group: "karpenter.sh", resource: "nodeclaims"},
		"disruptor":   {verb: "create", resource: "pods/eviction"},
		"terminator":  {verb: "delete", group: "karpenter.sh", resource: "nodeclaims"},
		"lifecycle":   {verb: "create", resource: "pods/eviction"},
	} {
		if e.allowed(account, beyond) {
			t.Errorf("%s may %s %s", account, beyond.verb, beyond.resource)
		}
	}
	if !e.allowed("terminator", right{verb: "create", resource: "pods/eviction"}) {
		t.Error("terminator may not evict pods")
	}
}
