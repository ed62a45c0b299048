// Package clustertest starts a real Kubernetes control plane for a test: the binary bin/localcluster, with
// Millwright's CRDs installed. `make build` makes the binary; a test without it fails and says so.
package clustertest

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	apiextv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apiextclient "k8s.io/apiextensions-apiserver/pkg/client/clientset/clientset"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/yaml"

	"millwright/tools/child"
)

const (
	startTimeout = 120 * time.Second
	stopTimeout  = 20 * time.Second
	crdTimeout   = 2 * time.Minute
)

// Cluster is a running control plane.
type Cluster struct {
	// Config is the cluster admin's; Kubeconfig is a file for child processes.
	Config     *rest.Config
	Kubeconfig string
	DataDir    string

	cmd   *exec.Cmd
	ended <-chan error
}

// Start runs a control plane of its own for the test and stops it at the test's end.
func Start(t testing.TB) *Cluster {
	t.Helper()
	c, err := Launch(t.Context(), t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Stop() })
	if err := InstallCRDs(t.Context(), c.Config); err != nil {
		t.Fatal(err)
	}
	return c
}

// Launch runs a control plane with its data in dir, without the CRDs. The caller must Stop it.
func Launch(ctx context.Context, dir string, args ...string) (*Cluster, error) {
	bin, err := Binary("localcluster")
	if err != nil {
		return nil, err
	}
	c := &Cluster{DataDir: dir, Kubeconfig: filepath.Join(dir, "ready.kubeconfig")}
	_ = os.Remove(c.Kubeconfig)
	log, err := os.Create(filepath.Join(dir, "localcluster.log"))
	if err != nil {
		return nil, fmt.Errorf("create log: %w", err)
	}
	defer log.Close()
	c.cmd = exec.Command(bin, append([]string{"--data-dir", dir, "--kubeconfig", c.Kubeconfig}, args...)...)
	c.cmd.Stdout, c.cmd.Stderr = log, log
	if c.ended, err = child.Start(c.cmd); err != nil {
		return nil, fmt.Errorf("start localcluster: %w", err)
	}
	if err := c.await(ctx, log.Name()); err != nil {
		c.Stop()
		return nil, err
	}
	return c, nil
}

func (c *Cluster) await(ctx context.Context, log string) error {
	ctx, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	for {
		if _, err := os.Stat(c.Kubeconfig); err == nil {
			break
		}
		select {
		case err := <-c.ended:
			out, _ := os.ReadFile(log)
			return fmt.Errorf("start localcluster: %v\n%s", err, out)
		case <-ctx.Done():
			return fmt.Errorf("start localcluster: %w", ctx.Err())
		case <-time.After(50 * time.Millisecond):
		}
	}
	cfg, err := clientcmd.BuildConfigFromFlags("", c.Kubeconfig)
	if err != nil {
		return fmt.Errorf("read kubeconfig: %w", err)
	}
	cfg.QPS, cfg.Burst = 500, 1000
	c.Config = cfg
	return nil
}

// Stop ends the control plane and waits for it.
func (c *Cluster) Stop() {
	_ = c.cmd.Process.Signal(syscall.SIGTERM)
	select {
	case <-c.ended: // or it was closed before
	case <-time.After(stopTimeout):
		_ = c.cmd.Process.Kill()
	}
}

// Kill ends one component (kube-apiserver, kube-scheduler, …) with SIGKILL; localcluster starts it again.
func (c *Cluster) Kill(component string) error { return c.Signal(component, syscall.SIGKILL) }

// Signal sends a signal to one component.
func (c *Cluster) Signal(component string, sig syscall.Signal) error {
	b, err := os.ReadFile(filepath.Join(c.DataDir, "pids", component))
	if err != nil {
		return fmt.Errorf("find process of %s: %w", component, err)
	}
	pid, err := strconv.Atoi(strings.TrimSpace(string(b)))
	if err != nil {
		return fmt.Errorf("find process of %s: %w", component, err)
	}
	return syscall.Kill(pid, sig)
}

// Binary returns the path of a binary that `make build` made.
func Binary(name string) (string, error) {
	path := filepath.Join(Root(), "bin", name)
	if _, err := os.Stat(path); err != nil {
		return "", fmt.Errorf("find %s: run `make build` first: %w", name, err)
	}
	return path, nil
}

// Root is the repository's root directory: the nearest one above the working directory that holds go.mod of
// the module millwright. `go test` runs each test in the directory of its package.
func Root() string {
	dir, err := os.Getwd()
	if err != nil {
		panic(fmt.Sprintf("find the repository's root: %v", err))
	}
	for at := dir; ; at = filepath.Dir(at) {
		content, err := os.ReadFile(filepath.Join(at, "go.mod"))
		if err == nil && strings.HasPrefix(string(content), "module millwright\n") {
			return at
		}
		if at == filepath.Dir(at) {
			panic(fmt.Sprintf("find the repository's root: no go.mod of millwright above %s", dir))
		}
	}
}

// InstallCRDs creates or updates the CRDs of deploy/crds and waits until they are established.
func InstallCRDs(ctx context.Context, cfg *rest.Config) error {
	files, err := filepath.Glob(filepath.Join(Root(), "deploy", "crds", "*.yaml"))
	if err != nil || len(files) == 0 {
		return errors.Join(errors.New("find CRDs: none in deploy/crds"), err)
	}
	return InstallCRDFiles(ctx, cfg, files...)
}

// InstallCRDFiles does so with CRDs of other files, one in each.
func InstallCRDFiles(ctx context.Context, cfg *rest.Config, files ...string) error {
	slices.Sort(files)
	client, err := apiextclient.NewForConfig(cfg)
	if err != nil {
		return fmt.Errorf("make client: %w", err)
	}
	ctx, cancel := context.WithTimeout(ctx, crdTimeout)
	defer cancel()
	for _, file := range files {
		if err := installCRD(ctx, client, file); err != nil {
			return fmt.Errorf("install %s: %w", filepath.Base(file), err)
		}
	}
	return nil
}

func installCRD(ctx context.Context, client apiextclient.Interface, file string) error {
	data, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	crd := &apiextv1.CustomResourceDefinition{}
	if err := yaml.UnmarshalStrict(data, crd); err != nil {
		return err
	}
	crds := client.ApiextensionsV1().CustomResourceDefinitions()
	if _, err := crds.Create(ctx, crd, metav1.CreateOptions{}); err != nil && !apierrors.IsAlreadyExists(err) {
		return err
	}
	for {
		have, err := crds.Get(ctx, crd.Name, metav1.GetOptions{})
		if err == nil && slices.ContainsFunc(have.Status.Conditions, func(c apiextv1.CustomResourceDefinitionCondition) bool {
			return c.Type == apiextv1.Established && c.Status == apiextv1.ConditionTrue
		}) {
			return nil
		}
		select {
		case <-ctx.Done():
			return errors.Join(ctx.Err(), err)
		case <-time.After(50 * time.Millisecond):
		}
	}
}
