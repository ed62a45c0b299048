package e2e

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"millwright/tools/clustertest"
)

// chartValues are what the chart is rendered with: the modes, each option that adds or removes objects, and
// the names that values for Karpenter use.
var chartValues = map[string]string{
	"embedded":    "",
	"profiling":   "controller: {profiling: {enabled: true, port: 6061}, metrics: {compat: true, pods: true, objects: true}}\n",
	"metrics":     secureMetrics,
	"shadow":      "settings: {mode: shadow}\npersistence: {storageClassName: gp3, size: 50Gi}\n",
	"surge":       "surge: {enabled: true}\n",
	"distributed": distributedValues,
	"certificates": distributedValues + `
webhook: {enabled: true}
networkPolicy: {enabled: true, metricsFrom: [{namespaceSelector: {}}]}
`,
	"passwords": `
mode: distributed
etcd: {endpoints: ["https://a:2379", "https://b:2379"], tlsSecretName: etcd-tls, username: millwright, passwordSecretName: etcd-password}
nats: {url: "tls://nats:4222", tlsSecretName: nats-tls, writerCredentialsSecretName: writer, readerCredentialsSecretName: reader, replicas: 3}
services:
  lifecycle: {replicas: 3, resources: {limits: {memory: 2Gi}}, serviceAccountAnnotations: {eks.amazonaws.com/role-arn: "arn:aws:iam::1:role/l"}}
`,
	"karpenter":    karpenterValues,
	"nothing":      "mode: distributed\nadditionalLabels:\nadditionalAnnotations:\npodLabels:\nserviceAccount: {annotations: }\nwebhook: {enabled: true}\ndashboards: {enabled: true}\n",
	"servers":      "mode: distributed\nnetworkPolicy: {enabled: true}\n",
	"cert-manager": "mode: distributed\nconsole: {enabled: false}\ncertManager: {enabled: true, issuerRef: {name: platform, kind: ClusterIssuer}}\n",
	"own-etcd": `
mode: distributed
etcd: {image: {digest: "sha256:0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"}, persistence: {storageClassName: gp3, size: 50Gi}}
nats: {url: "tls://nats:4222", tlsSecretName: nats-tls, writerCredentialsSecretName: writer, readerCredentialsSecretName: reader}
`,
}

// secureMetrics has every process serve its metrics to those alone who may get them.
const secureMetrics = `
mode: distributed
controller: {metrics: {secure: true, tlsSecretName: metrics-tls}}
webhook: {enabled: true}
console: {enabled: true}
export: {url: "https://events.example.com"}
`

const distributedValues = `
mode: distributed
etcd: {endpoints: ["https://etcd:2379"], tlsSecretName: etcd}
nats: {url: "tls://nats:4222", tlsSecretName: nats, writerCredentialsSecretName: writer, readerCredentialsSecretName: reader}
`

// karpenterValues are values of Karpenter's chart, each with an example.
const karpenterValues = `
nameOverride: karpenter
fullnameOverride: karpenter
additionalLabels: {team: platform}
additionalAnnotations: {note: "1"}
imagePullPolicy: Always
imagePullSecrets: [{name: pull}]
serviceAccount: {create: true, name: karpenter, annotations: {eks.amazonaws.com/role-arn: "arn:aws:iam::123456789012:role/karpenter"}}
additionalClusterRoleRules: [{apiGroups: [example.com], resources: [things], verbs: [get]}]
replicas: 2
revisionHistoryLimit: 5
strategy: {rollingUpdate: {maxUnavailable: 1}}
podLabels: {a: b}
podAnnotations: {c: d}
podDisruptionBudget: {name: karpenter, maxUnavailable: 1}
podSecurityContext: {fsGroup: 65532}
priorityClassName: system-cluster-critical
terminationGracePeriodSeconds: 45
hostNetwork: false
dnsPolicy: Default
dnsConfig: {options: [{name: ndots, value: "1"}]}
schedulerName: default-scheduler
service: {annotations: {x: "y"}}
nodeSelector: {kubernetes.io/os: linux}
topologySpreadConstraints: [{maxSkew: 1, topologyKey: topology.kubernetes.io/zone, whenUnsatisfiable: DoNotSchedule}]
tolerations: [{key: CriticalAddonsOnly, operator: Exists}]
extraVolumes: [{name: extra, emptyDir: {}}]
controller:
  containerName: controller
  image: {repository: registry.example/millwright, tag: v1, digest: ""}
  env: [{name: AWS_REGION, value: us-west-2}]
  envFrom: [{configMapRef: {name: more, optional: true}}]
  resources: {requests: {cpu: "1", memory: 1Gi}, limits: {cpu: "1", memory: 1Gi}}
  extraVolumeMounts: [{name: extra, mountPath: /extra}]
  sidecarContainer: []
  metrics: {port: 8080}
  healthProbe: {port: 8081}
logLevel: debug
logOutputPaths: [stdout]
logErrorOutputPaths: [stderr]
postInstallHook: {image: {repository: public.ecr.aws/bitnami/kubectl, tag: "1.30", digest: ""}}
settings:
  batchMaxDuration: 10s
  batchIdleDuration: 1s
  preferencePolicy: Respect
  minValuesPolicy: Strict
  clusterEndpoint: https://example.com
  isolatedVPC: true
  eksControlPlane: false
  vmMemoryOverheadPercent: 0.075
  reservedENIs: "0"
  disableDryRun: true
  featureGates: {nodeRepair: false, reservedCapacity: true, spotToSpotConsolidation: true, nodeOverlay: true, staticCapacity: true, capacityBuffer: false}
`

// chart renders a chart of deploy/charts with bin/chart, which fails if Helm's lint reports anything.
func chart(t *testing.T, name, values string, flags ...string) ([]byte, error) {
	t.Helper()
	file := filepath.Join(t.TempDir(), "values.yaml")
	if err := os.WriteFile(file, []byte(values), 0o600); err != nil {
		t.Fatal(err)
	}
	bin, err := clustertest.Binary("chart")
	if err != nil {
		t.Fatal(err)
	}
	flags = append(flags, "--values", file, filepath.Join(clustertest.Root(), "deploy/charts", name))
	cmd := exec.CommandContext(t.Context(), bin, flags...)
	var complaints strings.Builder
	cmd.Stderr = &complaints
	out, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("%w: %s", err, complaints.String())
	}
	return out, nil
}

// warnings collects the warnings that the API server sends with its answers.
type warnings struct {
	mu  sync.Mutex
	all []string
}

func (w *warnings) HandleWarningHeader(_ int, _ string, text string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.all = append(w.all, text)
}

// TestChartsInstall applies what the charts render, with strict validation, in a namespace that enforces Pod
// Security "restricted": nothing is refused, nothing is warned about, and the pods are created.
func TestChartsInstall(t *testing.T) {
	t.Parallel()
	cluster := clustertest.Start(t)
	kube := kubernetes.NewForConfigOrDie(cluster.Config)
	for name, values := range chartValues {
		t.Run(name, func(t *testing.T) {
			restricted := map[string]string{"pod-security.kubernetes.io/enforce": "restricted", "pod-security.kubernetes.io/warn": "restricted"}
			namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "chart-" + name, Labels: restricted}}
			if _, err := kube.CoreV1().Namespaces().Create(t.Context(), namespace, metav1.CreateOptions{}); err != nil {
				t.Fatal(err)
			}
			rendered, err := chart(t, "millwright", values, "--namespace", namespace.Name, "--set", "settings.clusterName=demo")
			if err != nil {
				t.Fatal(err)
			}
			install(t, cluster.Config, rendered)
			eventuallyPods(t, kube, namespace.Name, podsOf(rendered))
		})
	}
	t.Run("crds", func(t *testing.T) {
		rendered, err := chart(t, "millwright-crds", "additionalAnnotations: {a: b}\n")
		if err != nil {
			t.Fatal(err)
		}
		install(t, cluster.Config, rendered)
	})
}

func install(t *testing.T, cfg *rest.Config, rendered []byte) {
	t.Helper()
	heard := &warnings{}
	cfg = rest.CopyConfig(cfg)
	cfg.WarningHandler = heard
	applier, err := clustertest.NewApplier(cfg, "helm")
	if err != nil {
		t.Fatal(err)
	}
	applier.Options.FieldValidation = metav1.FieldValidationStrict
	objects, err := clustertest.Decode(rendered)
	if err != nil {
		t.Fatal(err)
	}
	if issuers, err := applier.Mapper.KindFor(schema.GroupVersionResource{Group: certManager, Resource: "issuers"}); err != nil || issuers.Empty() {
		// Without cert-manager its kinds are not there; TestCertificatesByCertManager has it.
		objects = slices.DeleteFunc(objects, func(o *unstructured.Unstructured) bool { return o.GroupVersionKind().Group == certManager })
	}
	if err := applier.Apply(t.Context(), objects...); err != nil {
		t.Error(err)
	}
	if len(heard.all) > 0 {
		t.Errorf("the API server warns: %s", strings.Join(heard.all, "\n"))
	}
}

// podsOf counts the replicas of all workloads together.
func podsOf(rendered []byte) int {
	count := 0
	for _, m := range regexp.MustCompile(`(?m)^  replicas: (\d+)$`).FindAllSubmatch(rendered, -1) {
		n, _ := strconv.Atoi(string(m[1]))
		count += n
	}
	return count
}

// eventuallyPods waits until the pods exist; admission would have refused any that were not restricted.
func eventuallyPods(t *testing.T, kube kubernetes.Interface, namespace string, want int) {
	t.Helper()
	deadline := time.Now().Add(convergence)
	for {
		pods, err := kube.CoreV1().Pods(namespace).List(t.Context(), metav1.ListOptions{})
		if err == nil && len(pods.Items) >= want {
			return
		}
		if time.Now().After(deadline) {
			events, _ := kube.CoreV1().Events(namespace).List(t.Context(), metav1.ListOptions{})
			for _, e := range events.Items {
				t.Log(e.Reason, e.Message)
			}
			t.Fatalf("pods: %d of %d, %v", len(pods.Items), want, err)
		}
		time.Sleep(200 * time.Millisecond)
	}
}

// TestChartRefusesUnknownValues: the error names the path of a key that the chart does not know, or of a
// value that is not allowed there.
func TestChartRefusesUnknownValues(t *testing.T) {
	t.Parallel()
	for values, want := range map[string]string{
		"settings: {clusterName: c, clusterEndpont: x}\n":                "clusterEndpont",
		"settings: {clusterName: c}\ncontroller: {image: {digest: x}}\n": "/controller/image/digest",
		"settings: {clusterName: c, batchIdleDuration: soon}\n":          "/settings/batchIdleDuration",
		"settings: {clusterName: c}\nmode: both\n":                       "/mode",
		"settings: {}\n": "settings.clusterName is required",
		"settings: {clusterName: c}\netcd: {image: {digest: latest}}\n": "/etcd/image/digest",
	} {
		if _, err := chart(t, "millwright", values); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("values %q: error %v, want it to name %q", values, err, want)
		}
	}
}
