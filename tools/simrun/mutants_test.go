package main

import (
	"cmp"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// mutant is a planner with one rule broken. Live decisions and replayed ones both come from it, so only
// checks that derive the right answer independently can find it.
type mutant struct {
	// file contains before exactly once; it becomes after while the mutant is switched on.
	file, before, after string
	// found are the checks that may find it.
	found []string
	// seeds that it may survive; "" stands for mutantSeeds.
	seeds string
}

// switchedOn is read from the environment of a run, so that one binary contains all mutants.
const switchedOn = "SIMRUN_MUTANT"

// on is the condition of a mutant.
func on(name string) string { return `os.Getenv("` + switchedOn + `") == "` + name + `"` }

var mutants = map[string]mutant{
	"what is marked for deletion counts as staying": {
		"planner/statenode.go", "func (s *Snapshot) marked(sn *StateNode) bool {\n", "return false", []string{"4: commands stay within the budgets", "5: plans", "it converges"}, ""},
	"pods that choose their node are not provisionable": {
		"planner/pods.go", "func IsProvisionable(p *world.Pod) bool {\n", "return p.Unschedulable && p.NodeName == \"\" && len(p.Class.Spec.NodeSelector) == 0 && p.Active() && !p.Class.DaemonSetOwned()",
		[]string{"9: every pending pod has a verdict", "it converges"}, ""},
	"no toleration tolerates": {
		"planner/provision/internal/demand/taints.go", "func tolerates(t *corev1.Taint, tolerations []corev1.Toleration) bool {\n", "return false", []string{"it converges", "3: no pod dies"}, ""},
	"nodes that are going use up no budget": {
		"planner/disrupt/internal/account/account.go", "func Consuming(s *planner.Snapshot, pool string) (nodes, used, going int) {\n", "for _, n := range s.StateNodes() {\nif n.NodePool == pool && n.Managed && n.Initialized && n.Node != nil && !terminating(n) {\nnodes++\n}\n}\nreturn nodes, 0, 0",
		[]string{"4: commands stay within the budgets"}, ""},
	"nodes that exist cost twice as much": {
		"planner/disrupt/internal/pricing/pricing.go", "func (p *Prices) Sum(nodes []*planner.StateNode) (sum int64) {\n", "for _, n := range nodes {\nsum += p.Of(n)\n}",
		[]string{"4: a command's prices are those of what it removes and buys", "4: consolidation does not buy dearer", "consolidation comes to rest", "4: DisruptionPolicies: commands save what is asked for"}, commandSeeds},
	"what a World older than the command lacks is gone": {
		"planner/disrupt/internal/gone/gone.go", "func MayCome(s *planner.Snapshot, cmd *ledger.Command) bool {\n", "return false",
		[]string{"4: replacements are initialized before what they replace goes"}, restoredSeeds},
	"notices have no deadline": {
		"planner/drain/step.go", "func noticeOf(s *planner.Snapshot, node string) (at time.Time) {\n", "return at",
		[]string{"pods that can be moved have left what EC2 takes back", "nodes that have ailed for as long as is tolerated are replaced at once"}, ""}, // repairs have that deadline too
	"what ails is not tolerated at all": {
		"planner/claim/repair.go", "func (v view) unhealthy() bool {\n", "return v.Unhealthy != nil && v.Unhealthy.Blocked == \"\" && v.timely(ReasonUnhealthy)",
		[]string{"only nodes that have ailed for as long as is tolerated are repaired"}, ""},
	"all nodes may be repaired at once": {
		"planner/claim/repair.go", "func RepairsAllowed(unhealthy, nodes int) bool {\n", "return true",
		[]string{"nothing is repaired while more than a fifth of the nodes ail"}, ""},
	"repaired nodes are emptied as slowly as others": {
		"planner/claim/interruption.go", "\tif a.Reason == ReasonUnhealthy { // at once, whatever terminationGracePeriod says\n", "return p",
		[]string{"nodes that have ailed for as long as is tolerated are replaced at once"}, ""},
	"pods that are ignored count": {
		"planner/world/ignored.go", "func ignoresPod(w *World, p *Pod) bool {\n", "return false", []string{"4: DisruptionPolicies: nodes are quiet while only pods come and go that are ignored"}, ""},
	"no pod counts": {
		"planner/world/ignored.go", "func podEventOn(w *World, p *Pod, at time.Time) {\n", "return", []string{"4: no node is consolidated inside its consolidateAfter", "4: DisruptionPolicies: no pod is moved to a node inside"}, ""},
	"recommendations are followed everywhere": {
		"planner/drift/rebalance.go", "func FollowsRebalance(policies []*mwv1alpha1.DisruptionPolicy, pool *karpv1.NodePool, option bool) bool {\n", "return true",
		[]string{"only spot nodes that EC2 recommends to leave"}, ""},
	"recommendations are no drift": {
		"planner/drift/judge.go", "func (x *comparison) rebalance() finding {\n", "return same()", []string{"spot nodes that EC2 recommends to leave drift"}, ""},
	"small instance types hold what large ones do": {
		"planner/provision/internal/place/open.go", "\t\tneed := total.Add(g.Overhead)\n", "_ = need\nout.Or(part)\ncontinue", []string{"5: planned claims have room for their pods"}, ""},
}

const (
	// mutantSeeds is how many seeds a mutant may survive; a mutant that only commands which buy nodes can
	// show may survive commandSeeds, and restoredSeeds if it also takes a World that was just restored.
	mutantSeeds   = "40"
	commandSeeds  = "400"
	restoredSeeds = "1000"
	root          = "../.."
)

// build makes a simulator that contains all mutants.
func build(t *testing.T) string {
	dir := t.TempDir()
	texts := map[string]string{}
	for name, m := range mutants {
		text, read := texts[m.file]
		if !read {
			data, err := os.ReadFile(filepath.Join(root, m.file))
			if err != nil {
				t.Fatal(err)
			}
			text = strings.Replace(string(data), "import (\n", "import (\n\t\"os\"\n", 1)
		}
		if strings.Count(text, m.before) != 1 {
			t.Fatalf("%s: %s has not %q once", name, m.file, m.before)
		}
		texts[m.file] = strings.Replace(text, m.before, m.before+"if "+on(name)+" {\n"+m.after+"\n}\n", 1)
	}
	overlay := struct{ Replace map[string]string }{map[string]string{}}
	for file, text := range texts {
		broken := filepath.Join(dir, strings.ReplaceAll(file, "/", "-"))
		whole, err := filepath.Abs(filepath.Join(root, file))
		if err == nil {
			err = os.WriteFile(broken, []byte(text), 0o600)
		}
		if err != nil {
			t.Fatal(err)
		}
		overlay.Replace[whole] = broken
	}
	list := filepath.Join(dir, "overlay.json")
	data, err := json.Marshal(overlay)
	if err == nil {
		err = os.WriteFile(list, data, 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
	binary := filepath.Join(dir, "simrun")
	if out, err := exec.CommandContext(t.Context(), "go", "build", "-overlay", list, "-o", binary, ".").CombinedOutput(); err != nil {
		t.Fatalf("build: %v\n%s", err, out)
	}
	return binary
}

// A check that knows nothing about planners finds each planner with a broken rule; without mutants all checks
// hold.
func TestPlannersThatAreWrongAreFound(t *testing.T) {
	binary := build(t)
	run := func(t *testing.T, name string) (string, error) {
		cmd := exec.CommandContext(t.Context(), binary, "--seeds", cmp.Or(mutants[name].seeds, mutantSeeds), "--quiet")
		cmd.Env = append(os.Environ(), switchedOn+"="+name)
		out, err := cmd.CombinedOutput()
		return string(out), err
	}
	if out, err := run(t, ""); err != nil {
		t.Fatalf("with nothing broken: %v\n%s", err, out)
	}
	for name, m := range mutants {
		t.Run(name, func(t *testing.T) {
			out, err := run(t, name)
			if err == nil {
				t.Fatalf("no seed found it:\n%s", out)
			}
			line, _, _ := strings.Cut(out, "\n")
			t.Log(line)
			for _, check := range m.found {
				if strings.Contains(line, "failed: "+check) {
					return
				}
			}
			t.Errorf("found by none of %v", m.found)
		})
	}
}
