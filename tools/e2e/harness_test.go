package e2e

import (
	"cmp"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"

	"millwright/tools/clustertest"
	"millwright/tools/ec2sim/simclient"
	"millwright/tools/stack"
)

// convergence bounds how long the system may take to settle. It is generous, since machines are slow at
// times.
const convergence = 300 * time.Second

// env is a running stack, with clients for it.
type env struct {
	*testing.T
	stack *stack.Stack
	kube  kubernetes.Interface
	dyn   dynamic.Interface
	ec2   *simclient.Client
	bin   string
}

// start runs a stack for the test, in parallel with other tests, which mostly wait.
func start(t *testing.T, change func(*stack.Options)) *env {
	t.Helper()
	t.Parallel()
	return startAtOnce(t, change)
}

// startAtOnce runs a stack for a test that is parallel already. If the test fails, the last lines of each
// process's log are printed.
func startAtOnce(t *testing.T, change func(*stack.Options)) *env {
	t.Helper()
	dir := keepable(t)
	opts := stack.Options{
		Dir: dir, BinDir: filepath.Join(clustertest.Root(), "bin"),
		EC2SimArgs:     []string{"--boot-delay", "500ms", "--pending-delay", "300ms", "--shutting-down-delay", "500ms"},
		MillwrightArgs: []string{"--log-level", "debug"},
	}
	if change != nil {
		change(&opts)
	}
	opts.ClusterArgs = append(opts.ClusterArgs, auditArgs(t, dir)...)
	s, err := stack.Start(t.Context(), opts)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Stop(); err != nil {
			t.Errorf("stop the stack: %v", err)
		}
		if opts.Through == nil {
			readAudit(t, dir)
		}
		noPanics(t, dir)
		if t.Failed() {
			printLogs(t, dir)
		}
	})
	e := &env{T: t, stack: s, bin: opts.BinDir, ec2: simclient.New(s.EC2Endpoint())}
	if e.kube, err = kubernetes.NewForConfig(s.Config()); err != nil {
		t.Fatal(err)
	}
	if e.dyn, err = dynamic.NewForConfig(s.Config()); err != nil {
		t.Fatal(err)
	}
	return e
}

// keepable is a temporary directory; if E2E_KEEP names a directory it lies there, and survives a failed test.
func keepable(t *testing.T) string {
	if keep := os.Getenv("E2E_KEEP"); keep != "" {
		dir := filepath.Join(keep, strings.ReplaceAll(t.Name(), "/", "_"))
		if err := os.RemoveAll(dir); err != nil {
			t.Fatal(err)
		}
		if err := os.MkdirAll(dir, 0o700); err != nil {
			t.Fatal(err)
		}
		return dir
	}
	return t.TempDir()
}

func printLogs(t *testing.T, dir string) {
	files, _ := filepath.Glob(filepath.Join(dir, "logs", "*.log"))
	for _, f := range files {
		b, err := os.ReadFile(f)
		if err != nil {
			continue
		}
		lines := strings.Split(strings.TrimSpace(string(b)), "\n")
		var keep []string
		for _, l := range lines {
			if !strings.Contains(l, `"level":"debug"`) {
				keep = append(keep, l)
			}
		}
		t.Logf("%s:\n%s", filepath.Base(f), strings.Join(keep[max(0, len(keep)-30):], "\n"))
	}
}

// noPanics demands that no service had a step that panicked, and was tried again, or was ended by a panic.
func noPanics(t *testing.T, dir string) {
	files, _ := filepath.Glob(filepath.Join(dir, "logs", "*.log"))
	for _, f := range files {
		b, err := os.ReadFile(f)
		if err != nil {
			continue
		}
		for l := range strings.SplitSeq(string(b), "\n") {
			if strings.HasPrefix(l, "panic: ") || strings.Contains(l, "a step panicked") {
				t.Errorf("%s: %s", filepath.Base(f), l)
			}
		}
	}
}

// eventually polls until met returns ""; any other text says what is still missing. It leaves the machine to
// what it waits for: a look at hundreds of objects is not repeated at once.
func (e *env) eventually(what string, met func() string) {
	e.Helper()
	deadline := time.Now().Add(convergence)
	for {
		began := time.Now()
		missing := met()
		if missing == "" {
			return
		}
		if time.Now().After(deadline) {
			e.Fatalf("%s: not within %s: %s", what, convergence, missing)
		}
		time.Sleep(min(max(100*time.Millisecond, 4*time.Since(began)), 2*time.Second))
	}
}

// millctl runs the CLI against the stack's log and returns what it printed, and its exit code.
func (e *env) millctl(args ...string) (string, int) {
	e.Helper()
	cmd := exec.CommandContext(e.Context(), filepath.Join(e.bin, "millctl"), append(args, e.stack.LogFlags()...)...)
	out, err := cmd.CombinedOutput()
	if err != nil && cmd.ProcessState == nil {
		e.Fatalf("run millctl: %v", err)
	}
	return string(out), cmd.ProcessState.ExitCode()
}

var replayed = regexp.MustCompile(`(\d+) decisions replayed, (\d+) divergences`)

// sound makes the checks with which every test ends: EC2, the hash chain, and replay.
func (e *env) sound() {
	e.Helper()
	e.oneLaunchPerClaim()
	if out, code := e.millctl("verify"); code != 0 {
		e.Errorf("verify the hash chain: exit %d\n%s", code, out)
	}
	args := []string{"replay"}
	if dir := os.Getenv("E2E_CORPUS"); dir != "" { // make corpus
		args = append(args, "--save", filepath.Join(dir, strings.ReplaceAll(e.Name(), "/", "_")+".rec"))
	}
	out, code := e.millctl(args...)
	m := replayed.FindStringSubmatch(out)
	if code != 0 || m == nil || m[2] != "0" || m[1] == "0" {
		e.Errorf("replay: exit %d\n%s", code, out)
	}
}

// oneLaunchPerClaim reads the simulator's ledger: no NodeClaim may have two instances. For a launch of
// several claims, the log says which instance belongs to which claim.
func (e *env) oneLaunchPerClaim() {
	e.Helper()
	entries, err := e.ec2.Ledger(e.Context(), 0)
	if err != nil {
		e.Fatal(err)
	}
	owners, byClaim := map[string]string{}, map[string][]string{}
	for _, l := range e.launches() {
		owners[l.InstanceID] = l.Claim
	}
	for _, entry := range entries {
		if entry.Outcome != "launched" && entry.Outcome != "partial" {
			continue
		}
		for _, id := range entry.Instances {
			claim := cmp.Or(entry.Tags["karpenter.sh/nodeclaim"], owners[id])
			if claim == "" {
				e.Errorf("instance %s of launch %d is no NodeClaim's", id, entry.Seq)
			}
			byClaim[claim] = append(byClaim[claim], id)
		}
	}
	for claim, instances := range byClaim {
		if len(instances) > 1 {
			e.Errorf("NodeClaim %s launched %d instances: %v", claim, len(instances), instances)
		}
	}
}

// clean waits until there is no NodeClaim, no managed node, and no live instance.
func (e *env) clean() {
	e.Helper()
	e.eventually("nothing left over", func() string {
		var left []string
		if claims := e.nodeClaims(); len(claims) > 0 {
			left = append(left, fmt.Sprintf("%d NodeClaims (%s)", len(claims), claims[0].GetName()))
		}
		if nodes := e.nodes(); len(nodes) > 0 {
			left = append(left, fmt.Sprintf("%d nodes (%s)", len(nodes), nodes[0].Name))
		}
		if live := e.liveInstances(); len(live) > 0 {
			left = append(left, fmt.Sprintf("%d instances (%s)", len(live), live[0].ID))
		}
		return strings.Join(left, ", ")
	})
}

// matched waits until live instances and NodeClaims correspond one to one.
func (e *env) matched() {
	e.Helper()
	e.eventually("one instance per NodeClaim", func() string {
		claims := map[string]bool{}
		for _, c := range e.nodeClaims() {
			claims[c.GetName()] = true
		}
		seen := map[string]bool{}
		for _, i := range e.liveInstances() {
			name := i.Tags["karpenter.sh/nodeclaim"]
			switch {
			case !claims[name]:
				return "instance " + i.ID + " has no NodeClaim " + name
			case seen[name]:
				return "NodeClaim " + name + " has two instances"
			}
			seen[name] = true
		}
		for c := range claims {
			if !seen[c] {
				return "NodeClaim " + c + " has no instance"
			}
		}
		return ""
	})
}

func (e *env) liveInstances() []simclient.Instance {
	e.Helper()
	all, err := e.ec2.Instances(e.Context())
	if err != nil {
		e.Fatal(err)
	}
	var live []simclient.Instance
	for _, i := range all {
		if i.Live() {
			live = append(live, i)
		}
	}
	return live
}
