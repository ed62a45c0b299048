package boot_test

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	ec2types "github.com/aws/aws-sdk-go-v2/service/ec2/types"
	"github.com/aws/aws-sdk-go-v2/service/ssm"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"

	"millwright/tools/ec2sim/boot"
	"millwright/tools/ec2sim/sim"
	"millwright/tools/ec2sim/simclient"
)

const endpoint = "https://10.0.0.1:6443"

// rig is a simulated account, with a runner that boots its instances into a fake cluster.
type rig struct {
	t      *testing.T
	server *sim.Server
	ec2    *ec2.Client
	ssm    *ssm.Client
	kube   *fake.Clientset
	n      int
}

func newRig(t *testing.T, settings simclient.Settings, adjust ...func(*boot.Config)) *rig {
	server := sim.New(sim.Config{ClusterEndpoint: endpoint, ClusterCA: []byte("CA"), Settings: settings})
	return start(t, server, adjust...)
}

func start(t *testing.T, server *sim.Server, adjust ...func(*boot.Config)) *rig {
	t.Helper()
	cfg := aws.Config{Region: "us-west-2", BaseEndpoint: aws.String("http://sim"), HTTPClient: &http.Client{Transport: server.Transport()},
		Credentials: credentials.NewStaticCredentialsProvider("AKID", "secret", ""), RetryMaxAttempts: 1}
	r := &rig{t: t, server: server, ec2: ec2.NewFromConfig(cfg), ssm: ssm.NewFromConfig(cfg), kube: fake.NewClientset()}
	name, at, ca := server.Cluster()
	c := boot.Config{Cloud: server, Kube: r.kube, Cluster: boot.Cluster{Name: name, Endpoint: at, CA: ca, Version: "1.36"}}
	for _, f := range adjust {
		f(&c)
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- boot.New(c).Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Errorf("runner: %v", err)
		}
	})
	return r
}

func nodeConfig(cluster, at string) string {
	return fmt.Sprintf(`apiVersion: node.eks.aws/v1alpha1
kind: NodeConfig
spec:
  cluster: {name: %s, apiServerEndpoint: %q, certificateAuthority: %s, cidr: 10.100.0.0/16}
  kubelet:
    config:
      maxPods: 29
      registerWithTaints: [{key: karpenter.sh/unregistered, effect: NoExecute}]
    flags: ['--node-labels="karpenter.sh/nodepool=default"']
`, cluster, at, base64.StdEncoding.EncodeToString([]byte("CA")))
}

// launch runs an instance with user data and returns its id.
func (r *rig) launch(userData, instanceType string) string {
	r.t.Helper()
	r.n++
	image, err := r.ssm.GetParameter(context.Background(), &ssm.GetParameterInput{
		Name: aws.String("/aws/service/eks/optimized-ami/1.36/amazon-linux-2023/x86_64/standard/recommended/image_id")})
	if err != nil {
		r.t.Fatal(err)
	}
	out, err := r.ec2.RunInstances(context.Background(), &ec2.RunInstancesInput{MinCount: aws.Int32(1), MaxCount: aws.Int32(1),
		ImageId: image.Parameter.Value, InstanceType: ec2types.InstanceType(instanceType),
		UserData: aws.String(base64.StdEncoding.EncodeToString([]byte(userData)))})
	if err != nil {
		r.t.Fatal(err)
	}
	return aws.ToString(out.Instances[0].InstanceId)
}

func (r *rig) instance(id string) simclient.Instance {
	for _, in := range r.server.Instances() {
		if in.ID == id {
			return in
		}
	}
	r.t.Fatalf("no instance %s", id)
	return simclient.Instance{}
}

// node waits until the Node of an instance meets a condition.
func (r *rig) node(id string, what string, holds func(*corev1.Node) bool) *corev1.Node {
	r.t.Helper()
	var node *corev1.Node
	r.until(what, func() bool {
		var err error
		node, err = r.kube.CoreV1().Nodes().Get(context.Background(), r.instance(id).PrivateDNS, metav1.GetOptions{})
		return err == nil && holds(node)
	})
	return node
}

func (r *rig) until(what string, holds func() bool) {
	r.t.Helper()
	for deadline := time.Now().Add(20 * time.Second); time.Now().Before(deadline); time.Sleep(10 * time.Millisecond) {
		if holds() {
			return
		}
	}
	r.t.Fatalf("it never came that %s", what)
}

func managed(n *corev1.Node) bool { return n.Annotations[boot.ManagedKey] == boot.ManagedValue }

func ready(n *corev1.Node) corev1.ConditionStatus {
	for _, c := range n.Status.Conditions {
		if c.Type == corev1.NodeReady {
			return c.Status
		}
	}
	return ""
}

func TestARunningInstanceRegistersAsItsKubeletWould(t *testing.T) {
	r := newRig(t, simclient.Settings{})
	id := r.launch(nodeConfig("millwright", endpoint), "m5.large")
	node := r.node(id, "the node is registered", managed)
	in := r.instance(id)
	if node.Spec.ProviderID != "aws:///"+in.Zone+"/"+id || !strings.HasPrefix(node.Name, "ip-10-0-") ||
		!strings.HasSuffix(node.Name, ".us-west-2.compute.internal") {
		t.Errorf("name %s provider id %s", node.Name, node.Spec.ProviderID)
	}
	for key, want := range map[string]string{"karpenter.sh/nodepool": "default", "node.kubernetes.io/instance-type": "m5.large",
		"topology.kubernetes.io/zone": in.Zone, "topology.kubernetes.io/region": "us-west-2", "kubernetes.io/arch": "amd64",
		"kubernetes.io/os": "linux", "kubernetes.io/hostname": node.Name} {
		if node.Labels[key] != want {
			t.Errorf("label %s is %q, want %q", key, node.Labels[key], want)
		}
	}
	if len(node.Spec.Taints) != 1 || node.Spec.Taints[0].Key != "karpenter.sh/unregistered" {
		t.Errorf("taints %v", node.Spec.Taints)
	}
	if cpu := node.Status.Allocatable[corev1.ResourceCPU]; cpu.String() != "1930m" {
		t.Errorf("allocatable cpu %s", cpu.String())
	}
	r.until("the instance knows its node", func() bool { return r.instance(id).Node == node.Name })
}

func TestATerminatedInstanceStopsItsNode(t *testing.T) {
	cases := map[string]struct{ deleteNodes, registered, stays bool }{
		"a registered one stays":                      {registered: true, stays: true},
		"one that nobody registered goes":             {},
		"all go if that is asked for":                 {deleteNodes: true, registered: true},
		"all go if that is asked for, registered not": {deleteNodes: true},
	}
	for sentence, c := range cases {
		t.Run(sentence, func(t *testing.T) {
			r := newRig(t, simclient.Settings{}, func(config *boot.Config) { config.DeleteNodes = c.deleteNodes })
			id := r.launch(nodeConfig("millwright", endpoint), "m5.large")
			node := r.node(id, "the node is registered", managed)
			if c.registered {
				patch := []byte(`{"metadata":{"labels":{"karpenter.sh/registered":"true"}}}`)
				if _, err := r.kube.CoreV1().Nodes().Patch(t.Context(), node.Name, types.MergePatchType, patch, metav1.PatchOptions{}); err != nil {
					t.Fatal(err)
				}
			}
			if _, err := r.ec2.TerminateInstances(t.Context(), &ec2.TerminateInstancesInput{InstanceIds: []string{id}}); err != nil {
				t.Fatal(err)
			}
			if !c.stays {
				r.until("the node is deleted", func() bool {
					_, err := r.kube.CoreV1().Nodes().Get(t.Context(), node.Name, metav1.GetOptions{})
					return apierrors.IsNotFound(err)
				})
				return
			}
			r.node(id, "the node is stopped", func(n *corev1.Node) bool { return !managed(n) && ready(n) == corev1.ConditionUnknown })
			time.Sleep(500 * time.Millisecond)
			if _, err := r.kube.CoreV1().Nodes().Get(t.Context(), node.Name, metav1.GetOptions{}); err != nil {
				t.Errorf("the node: %v", err)
			}
		})
	}
}

func TestInstancesThatNeverRegister(t *testing.T) {
	cases := map[string]string{
		"another cluster":       nodeConfig("other", endpoint),
		"another endpoint":      nodeConfig("millwright", "https://elsewhere"),
		"broken user data":      "hello",
		"another image family":  "#!/bin/bash\n/etc/eks/bootstrap.sh millwright --apiserver-endpoint " + endpoint,
		"a label of kubernetes": strings.Replace(nodeConfig("millwright", endpoint), "karpenter.sh/nodepool", "kubernetes.io/role", 1),
	}
	r := newRig(t, simclient.Settings{})
	for sentence, userData := range cases {
		t.Run(sentence, func(t *testing.T) {
			id := r.launch(userData, "m5.large")
			r.until("the problem is reported", func() bool { return r.instance(id).BootProblem != "" })
		})
	}
	if nodes, _ := r.kube.CoreV1().Nodes().List(context.Background(), metav1.ListOptions{}); len(nodes.Items) != 0 {
		t.Errorf("%d nodes registered", len(nodes.Items))
	}
}

func TestRegistrationIsRetriedWhileTheAPIServerIsDown(t *testing.T) {
	r := newRig(t, simclient.Settings{})
	var down atomic.Bool
	var tries atomic.Int64
	down.Store(true)
	r.kube.PrependReactor("create", "nodes", func(clienttesting.Action) (bool, runtime.Object, error) {
		if !down.Load() {
			return false, nil, nil
		}
		tries.Add(1)
		return true, nil, errors.New("connection refused")
	})
	id := r.launch(nodeConfig("millwright", endpoint), "m5.large")
	r.until("it has tried twice", func() bool { return tries.Load() >= 2 })
	down.Store(false)
	r.node(id, "the node is registered", managed)
}

func TestDelaysOfReadinessAndDevices(t *testing.T) {
	var now atomic.Int64
	start0 := time.Date(2026, 4, 1, 0, 0, 0, 0, time.UTC)
	clock := func() time.Time { return start0.Add(time.Duration(now.Load())) }
	server := sim.New(sim.Config{ClusterEndpoint: endpoint, ClusterCA: []byte("CA"), Now: clock, Settings: simclient.Settings{
		Pending: simclient.Duration(time.Minute), Boot: simclient.Duration(time.Minute), Ready: simclient.Duration(time.Minute),
		DevicePlugins: simclient.Duration(2 * time.Minute)}})
	r := start(t, server)
	id := r.launch(nodeConfig("millwright", endpoint), "g4dn.xlarge")
	if r.instance(id).State != "pending" {
		t.Errorf("state %s, want pending", r.instance(id).State)
	}
	now.Store(int64(2 * time.Minute))
	n := r.node(id, "the node is registered", func(*corev1.Node) bool { return true })
	if _, has := n.Status.Capacity["nvidia.com/gpu"]; has || managed(n) {
		t.Errorf("managed %v with capacity %v right after registration", managed(n), n.Status.Capacity)
	}
	now.Store(int64(3 * time.Minute))
	n = r.node(id, "KWOK has it", managed)
	if _, has := n.Status.Capacity["nvidia.com/gpu"]; has {
		t.Error("the GPU is there before its plugin")
	}
	now.Store(int64(4 * time.Minute))
	r.node(id, "the GPU is there", func(n *corev1.Node) bool {
		q := n.Status.Allocatable["nvidia.com/gpu"]
		return q.Value() == 1
	})
}

func TestARestartedSimulatorResumes(t *testing.T) {
	dir, settings := t.TempDir(), simclient.Settings{BootingPaused: true}
	first := sim.New(sim.Config{ClusterEndpoint: endpoint, ClusterCA: []byte("CA"), Settings: settings})
	if err := first.Persist(dir); err != nil {
		t.Fatal(err)
	}
	id := start(t, first).launch(nodeConfig("millwright", endpoint), "m5.large")
	if err := first.Close(); err != nil {
		t.Fatal(err)
	}
	second := sim.New(sim.Config{ClusterEndpoint: endpoint, ClusterCA: []byte("CA")})
	if err := second.Persist(dir); err != nil {
		t.Fatal(err)
	}
	r := start(t, second)
	r.node(id, "the node is registered", managed)
}

func TestAFailedInstanceStopsItsNodeAndComesBack(t *testing.T) {
	r := newRig(t, simclient.Settings{})
	id := r.launch(nodeConfig("millwright", endpoint), "m5.large")
	r.node(id, "the node is registered", managed)
	if err := r.control(id, "fail"); err != nil {
		t.Fatal(err)
	}
	r.node(id, "the node is stopped", func(n *corev1.Node) bool { return !managed(n) && ready(n) == corev1.ConditionUnknown })
	if err := r.control(id, "recover"); err != nil {
		t.Fatal(err)
	}
	r.node(id, "KWOK has it again", managed)
}

func (r *rig) control(id, verb string) error {
	c := &simclient.Client{URL: "http://sim", HTTP: &http.Client{Transport: r.server.Transport()}}
	if verb == "fail" {
		return c.Fail(context.Background(), id)
	}
	return c.Recover(context.Background(), id)
}
