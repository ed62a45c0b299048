package rights

import (
	"slices"
	"strings"
	"testing"
)

const sample = `
kind: ClusterRole
metadata: {name: millwright-terminator}
rules:
- {apiGroups: [""], resources: [pods, pods/eviction], verbs: [list, create]}
---
kind: ClusterRole
metadata: {name: millwright-viewer}
rules:
- {apiGroups: [millwright.sh], resources: [decisions], verbs: [get]}
---
kind: Role
metadata: {name: millwright-dns}
rules:
- {apiGroups: [""], resources: [services], resourceNames: [kube-dns], verbs: [get]}
---
kind: ClusterRoleBinding
metadata: {name: millwright-terminator}
roleRef: {kind: ClusterRole, name: millwright-terminator}
subjects: [{kind: ServiceAccount, name: millwright-terminator, namespace: kube-system}]
---
kind: RoleBinding
metadata: {name: millwright-dns}
roleRef: {kind: Role, name: millwright-dns}
subjects: [{kind: ServiceAccount, name: millwright-lifecycle, namespace: kube-system}]
---
kind: ClusterRoleBinding
metadata: {name: millwright-operator}
roleRef: {kind: ClusterRole, name: millwright-viewer}
subjects: [{kind: ServiceAccount, name: millwright-operator, namespace: kube-system}]
`

// What a role grants belongs to the account it is bound to; what people may do is not Millwright's.
func TestGranted(t *testing.T) {
	got, err := Granted([]byte(sample))
	if err != nil {
		t.Fatal(err)
	}
	var texts []string
	for _, r := range got {
		texts = append(texts, r.String())
	}
	want := []string{"millwright-terminator list pods", "millwright-terminator create pods", "millwright-terminator list pods/eviction",
		"millwright-terminator create pods/eviction", "millwright-lifecycle get services"}
	if !slices.Equal(texts, want) {
		t.Errorf("got %q, want %q", texts, want)
	}
}

func TestTheChartGrantsToEachAccount(t *testing.T) {
	granted, err := OfTheChart()
	if err != nil {
		t.Fatal(err)
	}
	for _, text := range []string{"millwright create nodeclaims.karpenter.sh", "millwright-terminator create pods/eviction", "millwright-watcher watch pods",
		"millwright-provisioner update leases.coordination.k8s.io", "millwright-lifecycle get services", "millwright-console update configmaps",
		"millwright update configmaps", "millwright-lifecycle patch nodepools/status.karpenter.sh"} {
		if !slices.Contains(granted, right(text)) {
			t.Errorf("does not grant %s", text)
		}
	}
}

func TestParseAudit(t *testing.T) {
	const event = `{"verb":"patch","user":{"username":"USER"},"objectRef":{"resource":"nodepools","subresource":"status","apiGroup":"karpenter.sh"},` +
		`"annotations":{"authorization.k8s.io/decision":"DECISION"}}`
	line := func(user, decision string) []byte {
		return []byte(strings.NewReplacer("USER", user, "DECISION", decision).Replace(event))
	}
	for about, c := range map[string]struct {
		line        []byte
		want        string
		allowed, ok bool
	}{
		"allowed":           {line(AccountPrefix+"millwright-lifecycle", "allow"), "millwright-lifecycle patch nodepools/status.karpenter.sh", true, true},
		"refused":           {line(AccountPrefix+"millwright", "forbid"), "millwright patch nodepools/status.karpenter.sh", false, true},
		"another account":   {line(AccountPrefix+"replicaset-controller", "allow"), "", false, false},
		"a person":          {line("ann", "allow"), "", false, false},
		"about no resource": {[]byte(`{"verb":"get","user":{"username":"` + AccountPrefix + `millwright"}}`), "", false, false},
		"no JSON":           {[]byte("{"), "", false, false},
	} {
		want := Right{}
		if c.want != "" {
			want = right(c.want)
		}
		if got, allowed, ok := ParseAudit(c.line); got != want || allowed != c.allowed || ok != c.ok {
			t.Errorf("%s: got %s, %t, %t", about, got, allowed, ok)
		}
	}
}

func TestRecordings(t *testing.T) {
	dir := t.TempDir() + "/rights"
	first, second := right("millwright-watcher watch pods"), right("millwright patch nodepools/status.karpenter.sh")
	for _, used := range []Used{{first: true}, {second: true, first: true}, {}} {
		if err := Record(dir, "TestLife/in_five_processes", used); err != nil { // as a test that runs once more does
			t.Fatal(err)
		}
	}
	used, whole, err := Read(dir)
	if err != nil || whole || len(used) != 2 || !used[first] || !used[second] {
		t.Errorf("got %v, whole %t: %v", used, whole, err)
	}
	if err := RecordWhole(dir); err != nil {
		t.Fatal(err)
	}
	if _, whole, err := Read(dir); !whole || err != nil {
		t.Errorf("not the whole suite: %v", err)
	}
	if _, whole, err := Read(t.TempDir()); whole || err != nil {
		t.Errorf("a directory without recordings is of the whole suite: %v", err)
	}
}

func TestCheck(t *testing.T) {
	for about, c := range map[string]struct{ granted, used, exceptions, want string }{
		"used":                        {"a get pods", "a get pods", "", ""},
		"not used":                    {"a get pods, a get nodes", "a get pods", "", "granted, but no test uses it: a get nodes"},
		"used by another":             {"a get pods", "b get pods", "", "granted, but no test uses it: a get pods"},
		"of another group":            {"a get pods.x", "a get pods", "", "granted, but no test uses it: a get pods.x"},
		"not used, but excepted":      {"a get pods", "", "never a get pods why", ""},
		"used although excepted":      {"a get pods", "a get pods", "never a get pods why", "exception for what a test uses: a get pods"},
		"used sometimes":              {"a get pods", "a get pods", "sometimes a get pods why", ""},
		"not used this time":          {"a get pods", "", "sometimes a get pods why", ""},
		"excepted, but not granted":   {"", "", "sometimes a get pods why", "exception for what no role grants: a get pods"},
		"lists as watches":            {"a list pods, a watch pods", "a watch pods", "", ""},
		"watches do not follow lists": {"a watch pods", "a list pods", "", "granted, but no test uses it: a watch pods"},
		"watch excepted, and list":    {"a list pods, a watch pods", "", "never a watch pods why", ""},
		"one process for five":        {"millwright get pods", "millwright-disruptor get pods", "", ""},
		"and for the console":         {"millwright get pods", "millwright-console get pods", "", ""},
		"five not for one process":    {"millwright-disruptor get pods", "millwright get pods", "", "granted, but no test uses it: millwright-disruptor get pods"},
		"granted by two roles":        {"a get pods, a get pods", "", "", "granted, but no test uses it: a get pods"},
	} {
		exceptions, err := ParseExceptions(c.exceptions)
		if err != nil {
			t.Fatal(err)
		}
		used := Used{}
		for _, r := range list(c.used) {
			used[r] = true
		}
		if got := strings.Join(Check(list(c.granted), used, exceptions), "\n"); got != c.want {
			t.Errorf("%s: got %q, want %q", about, got, c.want)
		}
	}
}

func TestExceptionsWithoutReasonAreRefused(t *testing.T) {
	for _, text := range []string{"never a get pods", "a get pods why", "never a get pods why\nsometimes a get pods why"} {
		if got, err := ParseExceptions(text); err == nil {
			t.Errorf("%q: got %v", text, got)
		}
	}
}

// Each exception is about what a role grants: what a run of all tests would say too, but later.
func TestExceptionsAreGranted(t *testing.T) {
	exceptions, err := Exceptions()
	if err != nil || len(exceptions) == 0 {
		t.Fatal(len(exceptions), err)
	}
	granted, err := OfTheChart()
	if err != nil {
		t.Fatal(err)
	}
	for _, x := range exceptions {
		if !slices.Contains(granted, x.Right) {
			t.Errorf("no role grants %s", x.Right)
		}
	}
}

func right(text string) Right {
	words := strings.Fields(text)
	return Parse(words[0], words[1], words[2])
}

func list(text string) (all []Right) {
	for part := range strings.SplitSeq(text, ", ") {
		if part != "" {
			all = append(all, right(part))
		}
	}
	return all
}
