package e2e

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"

	"millwright/tools/clustertest"
)

// renderedObjects are what the chart renders.
func renderedObjects(t *testing.T, values string) []*unstructured.Unstructured {
	t.Helper()
	rendered, err := chart(t, "millwright", values, "--set", "settings.clusterName=demo")
	if err != nil {
		t.Fatal(err)
	}
	objects, err := clustertest.Decode(rendered)
	if err != nil {
		t.Fatal(err)
	}
	return objects
}

// renderedPods are the pod templates that the chart renders, by the component of their labels.
func renderedPods(t *testing.T, values string) map[string]corev1.PodTemplateSpec {
	t.Helper()
	pods := map[string]corev1.PodTemplateSpec{}
	for _, o := range renderedObjects(t, values) {
		if o.GetKind() != "Deployment" && o.GetKind() != "StatefulSet" {
			continue
		}
		var d appsv1.Deployment
		if err := runtime.DefaultUnstructuredConverter.FromUnstructured(o.Object, &d); err != nil {
			t.Fatal(err)
		}
		pods[d.Spec.Template.Labels["app.kubernetes.io/component"]] = d.Spec.Template
	}
	return pods
}

// variableOf is a variable of a container's environment, and the Secret and key it is from if it is; false if
// it is not there.
func variableOf(c corev1.Container, name string) (string, bool) {
	i := slices.IndexFunc(c.Env, func(e corev1.EnvVar) bool { return e.Name == name })
	if i < 0 {
		return "", false
	}
	if from := c.Env[i].ValueFrom; from != nil && from.SecretKeyRef != nil {
		return from.SecretKeyRef.Name + "/" + from.SecretKeyRef.Key, true
	}
	return c.Env[i].Value, true
}

// TestChartTakesNATSUsersFromSecrets: with a NATS as docs/external.md sets it up, the watcher has its own
// URL, with its user and password, all others the readers', and each proves itself by the client certificate;
// without users in Secrets all have the URL of the values.
func TestChartTakesNATSUsersFromSecrets(t *testing.T) {
	t.Parallel()
	const base = `
mode: distributed
export: {url: "https://events.example.com"}
etcd: {endpoints: ["https://etcd:2379"], tlsSecretName: servers}
`
	for values, want := range map[string]struct{ watcher, reader, certificate string }{
		"nats: {writerURLSecretName: writer, readerURLSecretName: reader, tlsSecretName: servers}\n": {"writer/url", "reader/url", "/etc/millwright/nats/tls.crt"},
		"nats: {url: 'tls://nats:4222', writerURLSecretName: writer, tlsSecretName: servers}\n":      {"writer/url", "tls://nats:4222", "/etc/millwright/nats/tls.crt"},
		"nats: {url: 'tls://nats:4222', readerCredentialsSecretName: jwt, tlsSecretName: servers}\n": {"tls://nats:4222", "tls://nats:4222", "/etc/millwright/nats/tls.crt"},
		"nats: {url: 'tls://nats:4222', tlsSecretName: servers, clientCertificate: false}\n":         {"tls://nats:4222", "tls://nats:4222", ""},
	} {
		pods := renderedPods(t, base+values)
		if _, ok := pods["nats"]; ok {
			t.Errorf("%s: the chart brings a NATS of its own", values)
		}
		for _, service := range []string{"watcher", "provisioner", "disruptor", "terminator", "lifecycle", "console"} {
			c := pods[service].Spec.Containers[0]
			url := want.reader
			if service == "watcher" {
				url = want.watcher
			}
			if got, _ := variableOf(c, "NATS_URL"); got != url {
				t.Errorf("%s: NATS_URL of %s is %q, want %q", values, service, got, url)
			}
			key := strings.Replace(want.certificate, "crt", "key", 1)
			for name, file := range map[string]string{"NATS_CA_FILE": "/etc/millwright/nats/ca.crt", "NATS_CERT_FILE": want.certificate, "NATS_KEY_FILE": key} {
				if got, _ := variableOf(c, name); got != file {
					t.Errorf("%s: %s of %s is %q, want %q", values, name, service, got, file)
				}
			}
		}
		if got, ok := variableOf(pods["export"].Spec.Containers[0], "NATS_URL"); ok {
			t.Errorf("%s: the export, which asks no NATS, has its URL %q", values, got)
		}
	}
	if _, err := chart(t, "millwright", base+"nats: {readerURLSecretName: reader}\n", "--set", "settings.clusterName=demo"); err == nil ||
		!strings.Contains(err.Error(), "nats.writerURLSecretName") {
		t.Errorf("a NATS for readers alone: error %v", err)
	}
}

// TestChartMergesThePodSecurityContext: what the values say of the pods' security wins over the chart's own,
// and no key stands twice.
func TestChartMergesThePodSecurityContext(t *testing.T) {
	t.Parallel()
	pods := renderedPods(t, "webhook: {enabled: true}\npodSecurityContext: {fsGroup: 7, runAsNonRoot: true, seccompProfile: {type: Localhost, localhostProfile: p.json}}\n")
	for _, service := range []string{"all", "webhook"} {
		c := podOf(pods, service).SecurityContext
		if *c.RunAsNonRoot != true || *c.FSGroup != 7 || c.SeccompProfile.Type != corev1.SeccompProfileTypeLocalhost || *c.SeccompProfile.LocalhostProfile != "p.json" {
			t.Errorf("%s: security context %v", service, c)
		}
	}
	c := podOf(renderedPods(t, ""), "all").SecurityContext
	if !*c.RunAsNonRoot || *c.FSGroup != 65532 || c.SeccompProfile.Type != corev1.SeccompProfileTypeRuntimeDefault {
		t.Errorf("without values: security context %v", c)
	}
}

// podOf is the pod of a service; in mode embedded, "all", it has no component.
func podOf(pods map[string]corev1.PodTemplateSpec, service string) corev1.PodSpec {
	if service == "all" {
		service = ""
	}
	for component, p := range pods {
		if component == service || service == "" && component == "all" {
			return p.Spec
		}
	}
	return corev1.PodSpec{}
}

// TestChartMountsVolumesInSidecars: each sidecar gets controller.sidecarVolumeMounts besides its own.
func TestChartMountsVolumesInSidecars(t *testing.T) {
	t.Parallel()
	for _, sidecars := range []string{"[{name: s, image: i, volumeMounts: [{name: own, mountPath: /own}]}]", "{name: s, image: i, volumeMounts: [{name: own, mountPath: /own}]}"} {
		spec := podOf(renderedPods(t, "controller: {sidecarContainer: "+sidecars+", sidecarVolumeMounts: [{name: tmp, mountPath: /shared}]}\n"), "all")
		if len(spec.Containers) != 2 {
			t.Fatalf("%s: %d containers", sidecars, len(spec.Containers))
		}
		if m := spec.Containers[1].VolumeMounts; len(m) != 2 || m[0].MountPath != "/own" || m[1].MountPath != "/shared" {
			t.Errorf("%s: mounts %v", sidecars, m)
		}
	}
}

// TestChartTakesValuesThatAreNullOrZero: null takes a default away, and zero is a value.
func TestChartTakesValuesThatAreNullOrZero(t *testing.T) {
	t.Parallel()
	if spec := podOf(renderedPods(t, "affinity: null\n"), "all"); spec.Affinity != nil {
		t.Errorf("affinity %v, want none", spec.Affinity)
	}
	for value, want := range map[string]string{"0": "0", `"0"`: "0", "0.05": "0.05", `""`: "", "null": ""} {
		spec := podOf(renderedPods(t, "settings: {vmMemoryOverheadPercent: "+value+", nodeCost: "+value+"}\n"), "all")
		for _, name := range []string{"VM_MEMORY_OVERHEAD_PERCENT", "NODE_COST"} {
			if got, ok := variableOf(spec.Containers[0], name); got != want || ok != (want != "") {
				t.Errorf("%s of %s: %q, %v, want %q", name, value, got, ok, want)
			}
		}
	}
}

// TestChartRunsTheWebhookAsTheValuesSay: its pods get the annotations and the network of the others.
func TestChartRunsTheWebhookAsTheValuesSay(t *testing.T) {
	t.Parallel()
	pods := renderedPods(t, `
webhook: {enabled: true}
hostNetwork: true
dnsPolicy: ClusterFirstWithHostNet
dnsConfig: {options: [{name: ndots, value: "1"}]}
podAnnotations: {a: b}
settings: {awsFeatureGates: {nodeClassCEL: true}}
`)
	for component, p := range pods {
		if s := p.Spec; p.Annotations["a"] != "b" || !s.HostNetwork || s.DNSPolicy != corev1.DNSClusterFirstWithHostNet || s.DNSConfig == nil {
			t.Errorf("pod %q: annotations %v, hostNetwork %v, dnsPolicy %s, dnsConfig %v", component, p.Annotations, s.HostNetwork, s.DNSPolicy, s.DNSConfig)
		}
	}
	if len(pods) != 2 {
		t.Errorf("%d pods, want the services' and the webhook's", len(pods))
	}
}

// TestChartGivesAllPodsAnnotationsAndScheduler: those of the chart's own etcd and NATS, and of what keeps
// their certificates, too. NATS still restarts when its configuration changes, and etcd and NATS, whose
// members find each other by name, keep the cluster's DNS.
func TestChartGivesAllPodsAnnotationsAndScheduler(t *testing.T) {
	t.Parallel()
	const values = "mode: distributed\nwebhook: {enabled: true}\n"
	pods := renderedPods(t, values+`
podAnnotations: {a: b, checksum/configuration: mine}
schedulerName: other
dnsPolicy: Default
dnsConfig: {options: [{name: ndots, value: "1"}]}
`)
	plain := renderedPods(t, values)
	for component, p := range pods {
		own := plain[component]
		if p.Annotations["a"] != "b" || p.Spec.SchedulerName != "other" {
			t.Errorf("pod %q: annotations %v, scheduler %q", component, p.Annotations, p.Spec.SchedulerName)
		}
		if server := component == "etcd" || component == "nats"; server != (p.Spec.DNSPolicy == "") || server != (p.Spec.DNSConfig == nil) {
			t.Errorf("pod %q: dnsPolicy %q, dnsConfig %v", component, p.Spec.DNSPolicy, p.Spec.DNSConfig)
		}
		if sum := own.Annotations["checksum/configuration"]; sum != "" && p.Annotations["checksum/configuration"] != sum || own.Annotations["a"] != "" {
			t.Errorf("pod %q: annotations %v, and without values %v", component, p.Annotations, own.Annotations)
		}
	}
	if plain["nats"].Annotations["checksum/configuration"] == "" || len(pods) != len(plain) || len(pods) < 9 {
		t.Errorf("%d pods; those of NATS have annotations %v", len(pods), plain["nats"].Annotations)
	}
}

// TestChartFitsTheNetworkOfNodes: on the node's network no two pods of different services want the same port,
// so that a node holds all of them, their probes ask where they listen, they find etcd and NATS by name, and
// these let them in.
func TestChartFitsTheNetworkOfNodes(t *testing.T) {
	t.Parallel()
	const values = `
mode: distributed
hostNetwork: true
networkPolicy: {enabled: true}
webhook: {enabled: true}
export: {url: "https://events.example.com"}
controller: {profiling: {enabled: true}}
`
	taken := map[string]string{}
	for component, p := range renderedPods(t, values) {
		if slices.Contains([]string{"etcd", "nats", "certificates"}, component) {
			continue
		}
		if !p.Spec.HostNetwork || p.Spec.DNSPolicy != corev1.DNSClusterFirstWithHostNet {
			t.Errorf("%s: hostNetwork %v, dnsPolicy %s", component, p.Spec.HostNetwork, p.Spec.DNSPolicy)
		}
		c, ports := p.Spec.Containers[0], map[string]string{}
		for _, port := range c.Ports {
			ports[port.Name] = fmt.Sprint(port.ContainerPort)
		}
		metrics, _ := variableOf(c, "METRICS_PORT")
		probes, _ := variableOf(c, "HEALTH_PROBE_PORT")
		if metrics != ports["http-metrics"] || probes != ports["http"] {
			t.Errorf("%s: ports %v, but METRICS_PORT %s and HEALTH_PROBE_PORT %s", component, ports, metrics, probes)
		}
		if profiles, ok := variableOf(c, "PROFILING_ADDRESS"); ok {
			ports["profiles"] = strings.TrimPrefix(profiles, "127.0.0.1:")
		}
		for name, port := range ports {
			if other := taken[port]; other != "" {
				t.Errorf("port %s: %s of %s and %s", port, name, component, other)
			}
			taken[port] = name + " of " + component
		}
	}
	if len(taken) < 8*2+6 {
		t.Errorf("ports %v: not those of eight components", taken)
	}
	for _, server := range []string{"etcd", "nats"} {
		rule := serverPolicy(t, values, server).Spec.Ingress[0]
		if len(rule.From) > 0 || len(rule.Ports) == 0 {
			t.Errorf("%s lets in %v at %v: pods on the node's network are not among them", server, rule.From, rule.Ports)
		}
		if from := serverPolicy(t, strings.Replace(values, "hostNetwork: true", "", 1), server).Spec.Ingress[0].From; len(from) != 1 {
			t.Errorf("%s lets in %v, want the services alone", server, from)
		}
	}
}

// serverPolicy is the NetworkPolicy of the chart's etcd or NATS.
func serverPolicy(t *testing.T, values, server string) (policy networkingv1.NetworkPolicy) {
	t.Helper()
	objects := renderedObjects(t, values)
	i := slices.IndexFunc(objects, func(o *unstructured.Unstructured) bool {
		return o.GetKind() == "NetworkPolicy" && o.GetLabels()["app.kubernetes.io/component"] == server
	})
	if i < 0 {
		t.Fatalf("no NetworkPolicy of %s", server)
	}
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(objects[i].Object, &policy); err != nil {
		t.Fatal(err)
	}
	return policy
}
