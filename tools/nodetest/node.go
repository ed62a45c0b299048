//go:build linux

package main

import (
	"bytes"
	"context"
	"embed"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"millwright/tools/child"
	"millwright/tools/clustertest"
	"millwright/tools/image"
	"millwright/tools/outcome"
	"millwright/tools/stack"
)

//go:embed files
var files embed.FS

// node is the cluster with its one real node.
type node struct {
	*options
	*outcome.Cluster
	stack *stack.Stack
	// fill replaces what the files leave open.
	fill *strings.Replacer
}

func newNode(o *options) *node {
	return &node{options: o, Cluster: &outcome.Cluster{Out: outcome.NewProgress(os.Stdout)}, fill: strings.NewReplacer(
		"@STATE@", o.state(), "@BIN@", o.bin(), "@CLUSTER@", filepath.Join(o.state(), "cluster"), "@CGROUP@", o.cgroup, "@NODE@", nodeName,
		"@ADDRESS@", address, "@PODS@", podRange, "@DNS@", dnsAddress, "@EC2@", ec2Endpoint, "@NAMESPACE@", namespace)}
}

func (n *node) cluster() string         { return filepath.Join(n.state(), "cluster") }
func (n *node) kubeconfig() string      { return filepath.Join(n.cluster(), "ready.kubeconfig") }
func (n *node) file(name string) string { return filepath.Join(n.state(), name) }

// text of an embedded file.
func (n *node) text(name string) string {
	data, err := files.ReadFile("files/" + name)
	if err != nil {
		panic(err) // it is embedded
	}
	return n.fill.Replace(string(data))
}

// write embedded files where the node's programs look for them.
func (n *node) write() error {
	for _, dir := range []string{"cni", "logs", "images", "home"} {
		if err := os.MkdirAll(n.file(dir), 0o755); err != nil {
			return fmt.Errorf("make directory: %w", err)
		}
	}
	for i := range volumes {
		if err := os.MkdirAll(n.file(fmt.Sprintf("volumes/volume-%d", i)), 0o755); err != nil {
			return fmt.Errorf("make directory: %w", err)
		}
	}
	for name, to := range map[string]string{
		"containerd.toml": "containerd.toml", "cni.conflist": "cni/pods.conflist", "kubelet.yaml": "kubelet.yaml",
		"kube-proxy.yaml": "kube-proxy.yaml", "audit.yaml": "audit.yaml", "values.yaml": "values.yaml",
	} {
		if err := os.WriteFile(n.file(to), []byte(n.text(name)), 0o600); err != nil {
			return fmt.Errorf("write file: %w", err)
		}
	}
	return nil
}

// up starts the control plane, EC2, and the node, and returns when pods can run and find each other.
func (n *node) up(ctx context.Context) error {
	if err := n.write(); err != nil {
		return err
	}
	if err := n.start("containerd", "containerd", "--config", n.file("containerd.toml"), "--log-level", "warn"); err != nil {
		return err
	}
	loaded := make(chan error, 1)
	go func() { loaded <- n.loadImages(ctx) }()
	if err := errors.Join(n.controlPlane(ctx), <-loaded); err != nil {
		return err
	}
	kubelet := n.file("kubelet.kubeconfig")
	if err := n.kubeletConfig(kubelet); err != nil {
		return err
	}
	if err := n.start("kubelet", filepath.Join(n.bin(), "kubelet"), "--config", n.file("kubelet.yaml"), "--kubeconfig", kubelet,
		"--root-dir", n.file("kubelet"), "--cert-dir", n.file("kubelet-certificates"), "--hostname-override", nodeName, "--node-ip", address); err != nil {
		return err
	}
	if err := n.start("kube-proxy", filepath.Join(n.bin(), "kube-proxy"), "--config", n.file("kube-proxy.yaml")); err != nil {
		return err
	}
	if err := n.furnish(ctx); err != nil {
		return err
	}
	return errors.Join(n.awaitNode(ctx), n.enforcePolicies())
}

// start a program of the node, which is to run until the end.
func (n *node) start(name, program string, args ...string) error {
	log, err := os.Create(n.file("logs/" + name + ".log"))
	if err != nil {
		return fmt.Errorf("make log: %w", err)
	}
	defer log.Close()
	cmd := exec.Command(program, args...)
	cmd.Stdout, cmd.Stderr = log, log
	ended, err := child.Start(cmd)
	if err != nil {
		return fmt.Errorf("start %s: %w", name, err)
	}
	go func() { n.Out.Say("%s ended: %v", name, <-ended) }()
	return nil
}

// controlPlane starts the API server and its controllers on the node's address, and EC2 beside it.
func (n *node) controlPlane(ctx context.Context) (err error) {
	pki := filepath.Join(n.cluster(), "pki")
	args := []string{"--bind-address=0.0.0.0", "--advertise-host=" + address, "--secure-port=6443"}
	for _, arg := range []string{
		"endpoint-reconciler-type=lease", "advertise-address=" + address, "kubelet-preferred-address-types=InternalIP",
		"kubelet-client-certificate=" + filepath.Join(pki, "admin.crt"), "kubelet-client-key=" + filepath.Join(pki, "admin.key"),
		"audit-policy-file=" + n.file("audit.yaml"), "audit-log-path=" + n.file("logs/audit.log"),
	} {
		args = append(args, "--kube-apiserver-arg=--"+arg)
	}
	n.stack, err = stack.Start(ctx, stack.Options{Dir: n.state(), BinDir: n.bin(), Bare: true, Admin: true, NoCRDs: true, ClusterArgs: args,
		EC2SimArgs: []string{"--listen", strings.TrimPrefix(ec2Endpoint, "http://"), "--boot-delay", "1s"}})
	if err != nil {
		return err
	}
	n.Cluster, err = outcome.Connect(n.stack.Config(), ec2Endpoint, n.Out)
	return err
}

// images of what runs in pods.
func (n *node) images() []image.Image {
	of := func(name string, programs ...string) image.Image {
		i := image.Image{Name: "millwright/" + name, Architecture: runtime.GOARCH}
		for _, p := range programs {
			i.Files = append(i.Files, image.File{In: "/" + p, Host: filepath.Join(n.bin(), p)})
		}
		return i
	}
	older := of("millwright:older", "millwright-older", "millctl")
	older.Files[0].In = "/millwright"
	return []image.Image{of("pause:dev", "pause"), of("coredns:dev", "coredns"), of("etcd:dev", "etcd"), of("nats:dev", "nats-server"),
		of("millwright:dev", "millwright", "millctl"), older}
}

// loadImages makes the images and gives them to containerd: no registry is needed.
func (n *node) loadImages(ctx context.Context) error {
	err := n.Out.Await(ctx, "containerd", func(ctx context.Context) string {
		if out, err := exec.CommandContext(ctx, "ctr", "version").CombinedOutput(); err != nil {
			return err.Error() + ": " + string(out)
		}
		return ""
	})
	if err != nil {
		return err
	}
	for i, image := range n.images() {
		name := n.file(fmt.Sprintf("images/%d.tar", i))
		file, err := os.Create(name)
		if err != nil {
			return fmt.Errorf("write image: %w", err)
		}
		if err := errors.Join(image.Write(file), file.Close()); err != nil {
			return err
		}
		if out, err := exec.CommandContext(ctx, "ctr", "--namespace", "k8s.io", "images", "import", name).CombinedOutput(); err != nil {
			return fmt.Errorf("load image %s: %w: %s", image.Name, err, out)
		}
		if err := os.Remove(name); err != nil {
			return fmt.Errorf("remove image: %w", err)
		}
	}
	return nil
}

// furnish makes what a cluster has before Millwright is installed.
func (n *node) furnish(ctx context.Context) error {
	manifests := n.text("cluster.yaml")
	for i := range volumes {
		manifests += "---\n" + strings.ReplaceAll(n.text("volume.yaml"), "@VOLUME@", fmt.Sprintf("volume-%d", i))
	}
	return n.apply(ctx, []byte(manifests))
}

// apply manifests as kubectl does.
func (n *node) apply(ctx context.Context, manifests []byte) error {
	applier, err := clustertest.NewApplier(n.stack.Config(), "nodetest")
	if err != nil {
		return err
	}
	applier.Options.FieldValidation = metav1.FieldValidationStrict
	objects, err := clustertest.Decode(manifests)
	if err != nil {
		return err
	}
	return applier.Apply(ctx, objects...)
}

// awaitNode waits for the node and the cluster's DNS.
func (n *node) awaitNode(ctx context.Context) error {
	err := n.Out.Await(ctx, "the node to be Ready", func(ctx context.Context) string {
		have, err := n.Kube.CoreV1().Nodes().Get(ctx, nodeName, metav1.GetOptions{})
		if err != nil {
			return err.Error()
		}
		for _, c := range have.Status.Conditions {
			if c.Type == corev1.NodeReady && c.Status != corev1.ConditionTrue {
				return c.Message
			}
		}
		return ""
	})
	if err != nil {
		return err
	}
	n.Out.Say("node %s is Ready", nodeName)
	err = n.Out.Await(ctx, "the cluster's DNS", func(ctx context.Context) string {
		d, err := n.Kube.AppsV1().Deployments("kube-system").Get(ctx, "coredns", metav1.GetOptions{})
		if err != nil {
			return err.Error()
		}
		if d.Status.ReadyReplicas == 0 {
			return "no pod is ready"
		}
		return ""
	})
	if err != nil {
		return err
	}
	n.Out.Say("the cluster resolves names")
	return nil
}

// run a program of bin/ on the cluster, such as kubectl and helm, and return what it prints.
func (n *node) run(ctx context.Context, program string, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, filepath.Join(n.bin(), program), args...)
	cmd.Dir = n.root
	cmd.Env = append(os.Environ(), "KUBECONFIG="+n.kubeconfig(), "HOME="+n.file("home"))
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	if err := cmd.Run(); err != nil {
		return stdout.String(), fmt.Errorf("%s %s: %w\n%s", program, strings.Join(args, " "), errors.Join(context.Cause(ctx), err), stderr.String())
	}
	return stdout.String() + stderr.String(), nil
}
