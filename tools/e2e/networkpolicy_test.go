package e2e

import (
	"fmt"
	"net/netip"
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/intstr"

	"millwright/tools/clustertest"
)

// policed are values with NetworkPolicies, by which the pods of one namespace may read metrics.
const policed = `
mode: distributed
webhook: {enabled: true}
export: {url: "https://events.example.com"}
networkPolicy: {enabled: true, metricsFrom: [{namespaceSelector: {matchLabels: {kubernetes.io/metadata.name: monitoring}}}]}
`

// TestWhoMayReachWhom: by the NetworkPolicies of the chart its processes reach etcd and NATS, members reach
// each other, the pods of metricsFrom read metrics, and nobody else reaches anything of etcd and NATS.
func TestWhoMayReachWhom(t *testing.T) {
	t.Parallel()
	n := enforced(t, policed)
	processes := []string{"watcher", "provisioner", "disruptor", "terminator", "lifecycle", "console", "export", "certificates", "webhook"}
	for _, process := range processes {
		reads := !slices.Contains([]string{"export", "certificates", "webhook"}, process) // the stream
		n.may(process, "etcd", "client", process != "webhook")
		n.may(process, "etcd", "peer", false)
		n.may(process, "etcd", "metrics", false)
		n.may(process, "nats", "client", reads)
		n.may(process, "nats", "peer", false)
		n.may(process, "nats", "metrics", reads)
		n.may("prometheus", process, "http-metrics", true)
		n.may("stranger", process, "http-metrics", false)
		n.out(process, "10.0.0.1", 443, true)          // the API server and AWS
		n.out(process, "169.254.170.23", 80, true)     // EKS Pod Identity
		n.out(process, "fd00:ec2::23", 80, true)       // the same
		n.out(process, "10.0.0.1", 80, false)          // anything else there
		n.out(process, "10.100.0.10", 53, true)        // DNS
		n.out(process, "169.254.169.254", 9999, false) // a port that nothing needs
	}
	for server, other := range map[string]string{"etcd": "nats", "nats": "etcd"} {
		n.may(server, server, "peer", true)
		n.may(server, other, "client", false)
		n.may(server, other, "peer", false)
		n.may("prometheus", server, "metrics", true)
		n.may("prometheus", server, "client", false)
		for _, port := range []string{"client", "peer", "metrics"} {
			n.may("stranger", server, port, false)
		}
		n.out(server, "10.100.0.10", 53, true) // members find each other by name
		n.out(server, "10.0.0.1", 443, false)
		n.out(server, "169.254.170.23", 80, false)
	}
	n.may("stranger", "webhook", "webhook", true) // the API server, which is no pod
	n.may("stranger", "console", "https-console", true)
}

// TestNobodyReadsTheServersUnasked: without metricsFrom the processes' metrics are for everybody, as they are
// without NetworkPolicies, but the pages of etcd and NATS are not.
func TestNobodyReadsTheServersUnasked(t *testing.T) {
	t.Parallel()
	n := enforced(t, "mode: distributed\nnetworkPolicy: {enabled: true}\n")
	n.may("stranger", "lifecycle", "http-metrics", true)
	n.may("stranger", "etcd", "metrics", false)
	n.may("stranger", "nats", "metrics", false)
	n.may("lifecycle", "nats", "metrics", true)
}

// peer is a pod as NetworkPolicies see it.
type peer struct {
	namespace, labels labels.Set
	// ports of its containers, by name.
	ports map[string]int32
}

// policedNetwork is what a chart renders, seen by a network that enforces its policies.
type policedNetwork struct {
	*testing.T
	namespace labels.Set
	policies  []networkingv1.NetworkPolicy
	// pods by component; prometheus and stranger are of other namespaces.
	pods map[string]peer
}

// enforced is the network of what the chart renders for some values.
func enforced(t *testing.T, values string) *policedNetwork {
	t.Helper()
	rendered, err := chart(t, "millwright", values, "--namespace", "millwright", "--set", "settings.clusterName=demo")
	if err != nil {
		t.Fatal(err)
	}
	objects, err := clustertest.Decode(rendered)
	if err != nil {
		t.Fatal(err)
	}
	n := &policedNetwork{T: t, namespace: labels.Set{corev1.LabelMetadataName: "millwright"}, pods: map[string]peer{
		"prometheus": {namespace: labels.Set{corev1.LabelMetadataName: "monitoring"}},
		"stranger":   {namespace: labels.Set{corev1.LabelMetadataName: "default"}},
	}}
	for _, o := range objects {
		if o.GetKind() == "NetworkPolicy" {
			var p networkingv1.NetworkPolicy
			if err := runtime.DefaultUnstructuredConverter.FromUnstructured(o.Object, &p); err != nil {
				t.Fatal(err)
			}
			n.policies = append(n.policies, p)
			continue
		}
		template, found, _ := unstructured.NestedMap(o.Object, "spec", "template")
		if !found {
			continue
		}
		var pod corev1.PodTemplateSpec
		if err := runtime.DefaultUnstructuredConverter.FromUnstructured(template, &pod); err != nil {
			t.Fatal(err)
		}
		ports := map[string]int32{}
		for _, c := range pod.Spec.Containers {
			for _, p := range c.Ports {
				ports[p.Name] = p.ContainerPort
			}
		}
		n.pods[pod.Labels["app.kubernetes.io/component"]] = peer{namespace: n.namespace, labels: pod.Labels, ports: ports}
	}
	return n
}

// may demands that one kind of pod reaches a port of another, or does not.
func (n *policedNetwork) may(from, to, port string, want bool) {
	n.Helper()
	source, ok1 := n.pods[from]
	target, ok2 := n.pods[to]
	number, ok3 := target.ports[port]
	if !ok1 || !ok2 || !ok3 {
		n.Fatalf("there is no %s, or no port %s of %s", from, port, to)
	}
	got := n.into(source, target, number) && n.outOf(source, func(rule networkingv1.NetworkPolicyEgressRule) bool {
		return n.matches(rule.To, target, netip.Addr{}) && opens(rule.Ports, target.ports, number)
	})
	if got != want {
		n.Errorf("%s reaches port %s of %s: %t, want %t", from, port, to, got, want)
	}
}

// out demands that a kind of pod reaches a port at an address that is no pod's, or does not.
func (n *policedNetwork) out(from, address string, port int32, want bool) {
	n.Helper()
	got := n.outOf(n.pods[from], func(rule networkingv1.NetworkPolicyEgressRule) bool {
		return n.matches(rule.To, peer{}, netip.MustParseAddr(address)) && opens(rule.Ports, nil, port)
	})
	if got != want {
		n.Errorf("%s reaches %s: %t, want %t", from, netip.AddrPortFrom(netip.MustParseAddr(address), uint16(port)), got, want)
	}
}

// into reports whether the policies of a pod let another in; without one they do.
func (n *policedNetwork) into(source, target peer, port int32) bool {
	selected := false
	for _, p := range n.policies {
		if !n.selects(p, target, networkingv1.PolicyTypeIngress) {
			continue
		}
		selected = true
		for _, rule := range p.Spec.Ingress {
			if n.matches(rule.From, source, netip.Addr{}) && opens(rule.Ports, target.ports, port) {
				return true
			}
		}
	}
	return !selected
}

// outOf reports whether the policies of a pod have a rule that lets it out; without a policy they need none.
func (n *policedNetwork) outOf(source peer, lets func(networkingv1.NetworkPolicyEgressRule) bool) bool {
	selected := false
	for _, p := range n.policies {
		if !n.selects(p, source, networkingv1.PolicyTypeEgress) {
			continue
		}
		selected = true
		if slices.ContainsFunc(p.Spec.Egress, lets) {
			return true
		}
	}
	return !selected
}

func (n *policedNetwork) selects(p networkingv1.NetworkPolicy, pod peer, direction networkingv1.PolicyType) bool {
	return pod.namespace[corev1.LabelMetadataName] == p.Namespace && slices.Contains(p.Spec.PolicyTypes, direction) && n.selector(&p.Spec.PodSelector, pod.labels)
}

// matches reports whether one of the peers of a rule is a pod, or an address that is no pod's; a rule without
// peers is about all.
func (n *policedNetwork) matches(peers []networkingv1.NetworkPolicyPeer, pod peer, address netip.Addr) bool {
	return len(peers) == 0 || slices.ContainsFunc(peers, func(p networkingv1.NetworkPolicyPeer) bool {
		switch {
		case p.IPBlock != nil:
			return address.IsValid() && netip.MustParsePrefix(p.IPBlock.CIDR).Contains(address)
		case address.IsValid():
			return false
		case p.NamespaceSelector != nil:
			return n.selector(p.NamespaceSelector, pod.namespace) && (p.PodSelector == nil || n.selector(p.PodSelector, pod.labels))
		default:
			return pod.namespace[corev1.LabelMetadataName] == n.namespace[corev1.LabelMetadataName] && n.selector(p.PodSelector, pod.labels)
		}
	})
}

func (n *policedNetwork) selector(s *metav1.LabelSelector, set labels.Set) bool {
	n.Helper()
	selector, err := metav1.LabelSelectorAsSelector(s)
	if err != nil {
		n.Fatal(err)
	}
	return selector.Matches(set)
}

// opens reports whether a rule is about a port, which it may call by a name that the pod gives it.
func opens(ports []networkingv1.NetworkPolicyPort, names map[string]int32, number int32) bool {
	return len(ports) == 0 || slices.ContainsFunc(ports, func(p networkingv1.NetworkPolicyPort) bool {
		if p.Port.Type == intstr.String {
			named, ok := names[p.Port.StrVal]
			return ok && named == number
		}
		return fmt.Sprint(number) == p.Port.String()
	})
}
