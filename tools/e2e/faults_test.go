package e2e

import (
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"millwright/tools/ec2sim/simclient"
	"millwright/tools/stack"
)

// crashes kills or freezes one victim in each of several rounds, while pods come and go.
type crashes struct {
	*env
	rand    *rand.Rand
	victims []string
	// apps are the Deployments that are scaled at random; podsMax bounds their pods together.
	apps []string
}

const podsMax = 60

// seedEnv is added to the seeds, to run histories other than the usual ones.
const seedEnv = "E2E_SEED"

func (e *env) newCrashes(seed uint64, victims []string) *crashes {
	e.Helper()
	if text := os.Getenv(seedEnv); text != "" {
		more, err := strconv.ParseUint(text, 10, 64)
		if err != nil {
			e.Fatalf("%s: %v", seedEnv, err)
		}
		seed += more
	}
	e.Logf("seed %d", seed)
	c := &crashes{env: e, rand: rand.New(rand.NewPCG(seed, 0)), victims: victims}
	for i, cpu := range []string{"1", "2", "3"} {
		c.apps = append(c.apps, fmt.Sprintf("churn%d", i))
		e.deploy(c.apps[i], 0, cpu, "1Gi")
	}
	return c
}

// churn scales all apps at random.
func (c *crashes) churn() {
	c.Helper()
	for _, app := range c.apps {
		// The API server is never the victim here, but may be slow to answer.
		c.scale(app, int32(c.rand.IntN(podsMax/len(c.apps)+1)))
	}
}

// freezes pauses n leaders for a while at random moments: some wake up after they were deposed.
func (c *crashes) freezes(n int) {
	c.Helper()
	for round := range n {
		c.churn()
		time.Sleep(c.upTo(time.Second))
		victim := c.leader(c.victims[c.rand.IntN(len(c.victims))])
		frozen := c.upTo(5 * time.Second)
		c.Logf("round %d: stop %s for %s", round, victim.Name, frozen)
		if err := victim.Signal(syscall.SIGSTOP); err != nil {
			c.Fatal(err)
		}
		time.Sleep(frozen)
		if err := victim.Signal(syscall.SIGCONT); err != nil {
			c.Fatal(err)
		}
	}
}

// rounds kills and restarts n victims at random moments.
func (c *crashes) rounds(n int) {
	c.Helper()
	for round := range n {
		c.churn()
		time.Sleep(c.upTo(1500 * time.Millisecond))
		victim := c.victims[c.rand.IntN(len(c.victims))]
		c.Logf("round %d: kill -9 %s", round, victim)
		p := c.stack.Process(victim)
		if err := p.Kill(); err != nil {
			c.Fatal(err)
		}
		time.Sleep(c.upTo(time.Second))
		if err := p.Restart(); err != nil {
			c.Fatal(err)
		}
		time.Sleep(c.upTo(2 * time.Second))
	}
}

func (c *crashes) upTo(d time.Duration) time.Duration { return time.Duration(c.rand.Int64N(int64(d))) }

// endChurn leaves a few pods, then none, and runs the final checks.
func (c *crashes) endChurn() {
	c.Helper()
	for i, app := range c.apps {
		c.scale(app, int32(2+i))
	}
	for i, app := range c.apps {
		c.running(app, 2+i)
	}
	c.matched()
	for _, app := range c.apps {
		c.scale(app, 0)
	}
	c.clean()
	c.sound()
}

func TestVictimsAtRandomAsFiveProcesses(t *testing.T) {
	e := start(t, func(o *stack.Options) { o.FiveProcesses = true })
	e.apply(defaultClass)
	e.apply(defaultPool)
	e.hasCondition(nodeClasses, "default", "Ready", "True", "")
	c := e.newCrashes(1, append([]string{"etcd", "nats"}, stack.Services...))
	c.rounds(14)
	c.endChurn()
}

func TestVictimsAtRandomAsOneProcess(t *testing.T) {
	e := start(t, nil)
	e.apply(defaultClass)
	e.apply(defaultPool)
	e.hasCondition(nodeClasses, "default", "Ready", "True", "")
	c := e.newCrashes(2, []string{"millwright"})
	c.rounds(6)
	c.endChurn()
}

func TestLeadersAreFrozenAtRandom(t *testing.T) {
	e := start(t, func(o *stack.Options) { o.FiveProcesses, o.Standbys = true, true })
	e.apply(defaultClass)
	e.apply(defaultPool)
	e.hasCondition(nodeClasses, "default", "Ready", "True", "")
	// The watcher has no metric that says whether it leads.
	c := e.newCrashes(3, []string{"provisioner", "disruptor", "terminator", "lifecycle"})
	c.freezes(8)
	c.endChurn()
}

func TestTheStorageOfNATSIsLost(t *testing.T) {
	e := start(t, func(o *stack.Options) { o.FiveProcesses = true })
	e.apply(defaultClass)
	e.apply(defaultPool)
	e.deploy("web", 2, "3", "1Gi")
	e.running("web", 2)
	nats := e.stack.Process("nats")
	if err := nats.Kill(); err != nil {
		t.Fatal(err)
	}
	if err := os.RemoveAll(filepath.Join(e.stack.Dir(), "nats")); err != nil {
		t.Fatal(err)
	}
	if err := nats.Restart(); err != nil {
		t.Fatal(err)
	}
	e.scale("web", 4)
	e.running("web", 4)
	e.matched()
	e.scale("web", 0)
	e.clean()
	e.sound()
	if out, _ := e.millctl("replay"); !strings.Contains(out, "could not be replayed") {
		t.Errorf("replay does not list the span whose stream is lost:\n%s", out)
	}
}

// frozenFor is longer than a leader's lease and than all deadlines of a launch.
const frozenFor = 20 * time.Second

func TestALeaderFrozenInsideALaunchWakes(t *testing.T) {
	e := start(t, func(o *stack.Options) { o.FiveProcesses, o.Standbys = true, true })
	e.apply(defaultClass)
	e.apply(defaultPool)
	e.hasCondition(nodeClasses, "default", "Ready", "True", "")
	// The instance exists; the answer is still on its way.
	if _, err := e.ec2.AddFault(e.Context(), simclient.Fault{Action: "CreateFleet", Count: 1, After: true, Delay: simclient.Duration(3 * time.Second)}); err != nil {
		t.Fatal(err)
	}
	e.deploy("web", 2, "3", "1Gi")
	e.eventually("an instance is launched", func() string {
		if len(e.liveInstances()) == 0 {
			return "none yet"
		}
		return ""
	})
	leader := e.leader("lifecycle")
	e.Logf("stop %s for %s", leader.Name, frozenFor)
	if err := leader.Signal(syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	time.Sleep(frozenFor)
	if err := leader.Signal(syscall.SIGCONT); err != nil {
		t.Fatal(err)
	}
	e.running("web", 2)
	e.matched()
	e.scale("web", 0)
	e.clean()
	e.sound()
}

// leader is the process that leads a service that runs twice.
func (e *env) leader(service string) (leader *stack.Process) {
	e.Helper()
	e.eventually("a process leads "+service, func() string {
		for _, name := range []string{service, service + "-2"} {
			page, err := e.stack.Metrics(e.Context(), name)
			if err != nil {
				return err.Error()
			}
			if strings.Contains(page, "millwright_"+service+"_leader 1") {
				leader = e.stack.Process(name)
				return ""
			}
		}
		return "none yet"
	})
	return leader
}

func TestAllOfEC2IsThrottled(t *testing.T) {
	e := start(t, nil)
	e.apply(defaultClass)
	e.apply(defaultPool)
	e.deploy("web", 2, "3", "1Gi")
	e.running("web", 2)
	fault, err := e.ec2.AddFault(e.Context(), simclient.Fault{Action: "*", Service: "ec2", Code: "RequestLimitExceeded", Status: 503})
	if err != nil {
		t.Fatal(err)
	}
	e.scale("web", 5)
	time.Sleep(20 * time.Second)
	if n := len(e.liveInstances()); n > 2 {
		t.Errorf("%d instances although every call is refused", n)
	}
	if err := e.ec2.ClearFault(e.Context(), fault.ID); err != nil {
		t.Fatal(err)
	}
	e.running("web", 5)
	e.matched()
	e.scale("web", 0)
	e.clean()
	e.sound()
}

// Each server in turn stops answering for longer than leases and most deadlines last, while pods come and go:
// it still accepts connections, like a server whose disk hangs. Nothing is done twice in that time, and work
// resumes afterwards.
func TestServersHang(t *testing.T) {
	e := start(t, func(o *stack.Options) { o.FiveProcesses = true })
	e.apply(defaultClass)
	e.apply(defaultPool)
	e.hasCondition(nodeClasses, "default", "Ready", "True", "")
	c := e.newCrashes(4, nil)
	signal := func(name string, sig syscall.Signal) {
		t.Helper()
		var err error
		if p := e.stack.Process(name); p != nil {
			err = p.Signal(sig)
		} else {
			err = e.stack.Cluster.Signal(name, sig)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	for _, name := range []string{"etcd", "nats", "ec2sim", "kube-apiserver"} {
		c.churn()
		time.Sleep(c.upTo(2 * time.Second))
		t.Logf("%s hangs for %s", name, hungFor)
		signal(name, syscall.SIGSTOP)
		for range 4 {
			if name != "kube-apiserver" {
				c.churn()
			}
			time.Sleep(hungFor / 4)
		}
		signal(name, syscall.SIGCONT)
		c.churn()
		for i, app := range c.apps {
			c.scale(app, int32(1+i))
		}
		for i, app := range c.apps {
			c.running(app, 1+i)
		}
		c.matched()
	}
	c.endChurn()
}

// hungFor is longer than leases, the pings of connections and the deadlines of calls.
const hungFor = 40 * time.Second
