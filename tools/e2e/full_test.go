package e2e

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"

	"millwright/store/etcdlog/embedded"
	"millwright/tools/stack"
)

// smallQuota fills quickly, yet has room for a whole test.
const (
	smallQuota     = 32 << 20
	smallQuotaFlag = "33554432"
)

// etcd connects to the etcd of the stack.
func (e *env) etcd() *clientv3.Client {
	e.Helper()
	endpoints := []string{e.stack.EtcdEndpoint()}
	if endpoints[0] == "" {
		var err error
		if endpoints, err = embedded.Endpoints(e.stack.MillwrightDir() + "/etcd"); err != nil {
			e.Fatal(err)
		}
	}
	c, err := clientv3.New(clientv3.Config{Endpoints: endpoints, Logger: zap.NewNop()})
	if err != nil {
		e.Fatal(err)
	}
	e.Cleanup(func() { _ = c.Close() })
	return c
}

// fill writes history until etcd accepts no more.
func (e *env) fill() {
	e.Helper()
	c := e.etcd()
	ctx, cancel := context.WithTimeout(e.Context(), time.Minute)
	defer cancel()
	ballast := []byte(strings.Repeat("x", 1<<20))
	for i := 0; i < 4*smallQuota/len(ballast); i++ {
		ballast[0] = byte(i)
		_, err := c.Put(ctx, "/ballast", string(ballast))
		if errors.Is(err, rpctypes.ErrNoSpace) {
			return
		}
		if err != nil {
			e.Fatal(err)
		}
	}
	e.Fatal("etcd takes more than its quota")
}

// isFull reports whether etcd refuses writes.
func (e *env) isFull() bool {
	e.Helper()
	ctx, cancel := context.WithTimeout(e.Context(), 5*time.Second)
	defer cancel()
	alarms, err := e.etcd().AlarmList(ctx)
	return err == nil && len(alarms.Alarms) > 0
}

// restart kills processes, and starts them again once all of them are dead.
func (e *env) restart(names ...string) {
	e.Helper()
	for _, name := range names {
		if err := e.stack.Process(name).Kill(); err != nil {
			e.Fatal(err)
		}
	}
	for _, name := range names {
		if err := e.stack.Process(name).Restart(); err != nil {
			e.Fatal(err)
		}
	}
}

// goesOn checks that pods get nodes, and that the nodes go when the pods do.
func (e *env) goesOn(app string, n int) {
	e.Helper()
	e.scale(app, int32(n))
	e.running(app, n)
	e.matched()
}

func TestAFullEmbeddedEtcdRecovers(t *testing.T) {
	e := start(t, func(o *stack.Options) {
		o.MillwrightArgs = append(o.MillwrightArgs, "--etcd-quota-bytes", smallQuotaFlag)
	})
	e.apply(defaultClass)
	e.apply(defaultPool)
	e.deploy("web", 1, "3", "1Gi", apart("web"))
	e.running("web", 1)
	e.fill()
	e.restart("millwright")
	e.goesOn("web", 2)
	e.fill() // while it leads
	e.goesOn("web", 3)
	e.scale("web", 0)
	e.clean()
	e.sound()
}

func TestAFullExternalEtcdRecovers(t *testing.T) {
	e := start(t, func(o *stack.Options) {
		o.FiveProcesses, o.EtcdArgs = true, []string{"--quota-backend-bytes", smallQuotaFlag}
	})
	e.apply(defaultClass)
	e.apply(defaultPool)
	e.deploy("web", 1, "3", "1Gi", apart("web"))
	e.running("web", 1)
	e.fill()
	e.restart(append([]string{"etcd"}, stack.Services...)...)
	e.goesOn("web", 2)

	// Without lifecycle only an operator can free space in the log.
	lifecycle := e.stack.Process("lifecycle")
	if err := lifecycle.Stop(); err != nil {
		t.Fatal(err)
	}
	e.fill()
	e.restart("etcd", "watcher", "provisioner", "disruptor", "terminator")
	e.scale("web", 3)
	e.lasts(15*time.Second, "etcd stays full", func() string {
		if p := e.stack.Process("etcd"); p.Err() != nil {
			return "it ended"
		}
		return ""
	})
	e.eventually("etcd answers, and is full", func() string {
		if !e.isFull() {
			return "not"
		}
		return ""
	})
	if out, code := e.millctl("status"); code != 0 || !strings.Contains(out, "FULL: it takes no writes") {
		t.Errorf("millctl status upon a full etcd: exit %d\n%s", code, out)
	}
	if out, code := e.millctl("log", "relieve"); code != 0 {
		t.Fatalf("millctl log relieve: exit %d\n%s", code, out)
	}
	if e.isFull() {
		t.Error("it is full after it was relieved")
	}
	if err := lifecycle.Restart(); err != nil {
		t.Fatal(err)
	}
	e.running("web", 3)
	e.matched()
	e.scale("web", 0)
	e.clean()
	e.sound()
}

// The disk under etcd and NATS is full, both for a process that runs and for one that starts. Nothing is
// lost, and once there is room work resumes.
func TestAFullDiskRecovers(t *testing.T) {
	e := start(t, func(o *stack.Options) { o.Bare = true })
	dir := e.stack.MillwrightDir()
	if err := syscall.Mount("tmpfs", dir, "tmpfs", 0, "size=320m,mode=0700"); err != nil {
		t.Skipf("a small file system cannot be mounted here: %v", err)
	}
	p, err := e.stack.StartMillwright()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = p.Stop()
		if err := syscall.Unmount(dir, 0); err != nil {
			t.Error(err)
		}
	})
	e.apply(defaultClass)
	e.apply(defaultPool)
	e.deploy("web", 2, "3", "1Gi", apart("web"))
	e.running("web", 2)

	ballast := e.fillDisk(dir)
	e.scale("web", 4)
	e.eventually("a full disk", func() string {
		if out, err := os.ReadFile(p.Log()); err != nil || !strings.Contains(string(out), "no space left on device") {
			return "the log does not say that the disk is full"
		}
		return ""
	})
	time.Sleep(10 * time.Second) // with a full disk
	_ = p.Kill()
	if err := p.Restart(); err != nil {
		t.Fatal(err)
	}
	time.Sleep(10 * time.Second)
	_ = p.Kill() // unless it has ended
	if err := os.Remove(ballast); err != nil {
		t.Fatal(err)
	}
	if err := p.Restart(); err != nil {
		t.Fatal(err)
	}
	e.running("web", 4)
	e.matched()
	e.scale("web", 0)
	e.clean()
	e.sound()
}

// TestAFullDiskOfTheBusRecovers: the disk of the observations alone was full for a moment. NATS stores
// nothing more in a stream that it could not write to, so the process ends and says why, and all goes on as
// it is started anew. Nothing is lost: pods that came meanwhile get their nodes.
func TestAFullDiskOfTheBusRecovers(t *testing.T) {
	e := start(t, func(o *stack.Options) { o.Bare = true })
	dir := filepath.Join(e.stack.MillwrightDir(), "nats")
	if err := os.MkdirAll(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := syscall.Mount("tmpfs", dir, "tmpfs", 0, "size=200m,mode=0700"); err != nil {
		t.Skipf("a small file system cannot be mounted here: %v", err)
	}
	p, err := e.stack.StartMillwright()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = p.Stop()
		if err := syscall.Unmount(dir, 0); err != nil {
			t.Error(err)
		}
	})
	e.apply(defaultClass)
	e.apply(defaultPool)
	e.deploy("web", 2, "3", "1Gi", apart("web"))
	e.running("web", 2)

	ballast := e.fillDisk(dir)
	e.scale("web", 4)
	e.eventually("a full disk", func() string {
		if out, err := os.ReadFile(p.Log()); err != nil || !strings.Contains(string(out), "no space left on device") {
			return "the log does not say that the disk is full"
		}
		return ""
	})
	if err := os.Remove(ballast); err != nil {
		t.Fatal(err)
	}
	e.eventually("the end of the process", func() string {
		select {
		case <-p.Ended():
			return ""
		default:
			return "it runs"
		}
	})
	if out, err := os.ReadFile(p.Log()); err != nil || !strings.Contains(string(out), "stores nothing more until it is started anew") {
		t.Errorf("the log does not say why it ended: %v", err)
	}
	if err := p.Restart(); err != nil {
		t.Fatal(err)
	}
	e.running("web", 4)
	e.matched()
	e.scale("web", 0)
	e.clean()
	e.sound()
}

// fillDisk writes a file into a directory until there is no room for another byte.
func (e *env) fillDisk(dir string) string {
	e.Helper()
	path := filepath.Join(dir, "ballast")
	f, err := os.Create(path)
	if err != nil {
		e.Fatal(err)
	}
	defer f.Close()
	for _, size := range []int{1 << 20, 4 << 10, 1} {
		for block := make([]byte, size); err == nil; {
			_, err = f.Write(block)
		}
		if !errors.Is(err, syscall.ENOSPC) {
			e.Fatal(err)
		}
		err = nil
	}
	return path
}
