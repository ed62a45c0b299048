package e2e

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"millwright/tools/ec2sim/simclient"
	"millwright/tools/stack"
)

// TestZonalShift: nothing is launched in a zone that ARC shifts the cluster away from, also by a Millwright
// that starts while ARC is silent; nodes that are there stay; once the shift is over the zone is used again.
func TestZonalShift(t *testing.T) {
	e := start(t, func(o *stack.Options) {
		o.MillwrightArgs = append(o.MillwrightArgs, "--enable-zonal-shift")
	})
	e.apply(defaultClass)
	e.apply(defaultPool)
	defaults, err := e.ec2.Defaults(e.Context())
	if err != nil {
		t.Fatal(err)
	}
	zone, id := defaults.Zones[0], ""
	e.deploy("before", 1, "1", "1Gi", inZone(zone))
	e.running("before", 1)
	before := e.podOf("before").Spec.NodeName
	for _, n := range e.nodes() {
		id = n.Labels["topology.k8s.aws/zone-id"]
	}
	if err := e.ec2.SetZonalShifts(e.Context(), simclient.ZonalShifts{Shifts: []simclient.ZonalShift{{AwayFrom: id, Until: time.Now().Add(time.Hour)}}}); err != nil {
		t.Fatal(err)
	}
	e.hasPoolEvent("ZonalShiftActive", fmt.Sprintf("Zonal shift detected: offerings in zone %s (%s) are unavailable for this NodePool", zone, id))
	e.deploy("spread", 4, "1500m", "1Gi", onePerNode("spread"))
	e.running("spread", 4)
	outside := func() {
		t.Helper()
		for _, n := range e.nodes() {
			if n.Name != before && n.Labels["topology.kubernetes.io/zone"] == zone {
				t.Errorf("node %s was launched in %s", n.Name, zone)
			}
		}
	}
	outside()
	e.deploy("there", 1, "1500m", "1Gi", inZone(zone))
	silent, err := e.ec2.AddFault(e.Context(), simclient.Fault{Action: "GetManagedResource", Code: "InternalServerException", Status: 500})
	if err != nil {
		t.Fatal(err)
	}
	e.restart("millwright")
	e.scale("spread", 7)
	e.running("spread", 7)
	outside()
	if p := e.podOf("there"); p == nil || p.Spec.NodeName != "" && p.Spec.NodeName != before {
		t.Errorf("a pod that needs the zone: %v", p)
	}
	if p := e.podOf("before"); p == nil || p.Spec.NodeName != before {
		t.Error("the pod that was in the zone was moved")
	}
	if err := e.ec2.ClearFault(e.Context(), silent.ID); err != nil {
		t.Fatal(err)
	}
	if err := e.ec2.SetZonalShifts(e.Context(), simclient.ZonalShifts{}); err != nil {
		t.Fatal(err)
	}
	e.running("there", 1)
	e.hasPoolEvent("ZonalShiftCleared", "available again for this NodePool")
	for _, app := range []string{"before", "there", "spread"} {
		e.scale(app, 0)
	}
	e.clean()
	e.sound()
}

func inZone(zone string) func(*corev1.PodTemplateSpec) {
	return func(p *corev1.PodTemplateSpec) {
		p.Spec.NodeSelector = map[string]string{corev1.LabelTopologyZone: zone}
	}
}

// onePerNode keeps the pods of an app apart.
func onePerNode(app string) func(*corev1.PodTemplateSpec) {
	return func(p *corev1.PodTemplateSpec) {
		p.Spec.Affinity = &corev1.Affinity{PodAntiAffinity: &corev1.PodAntiAffinity{RequiredDuringSchedulingIgnoredDuringExecution: []corev1.PodAffinityTerm{{
			TopologyKey: corev1.LabelHostname, LabelSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": app}}}}}}
	}
}

// hasPoolEvent waits for a KubeEvent on the default NodePool.
func (e *env) hasPoolEvent(reason, text string) {
	e.Helper()
	e.eventually("event "+reason, func() string {
		list, err := e.kube.CoreV1().Events(metav1.NamespaceAll).List(e.Context(), metav1.ListOptions{FieldSelector: "reason=" + reason})
		if err != nil {
			return err.Error()
		}
		var texts []string
		for _, x := range list.Items {
			if x.InvolvedObject.Kind == "NodePool" && x.InvolvedObject.Name == "default" {
				texts = append(texts, x.Message)
			}
		}
		if !slices.ContainsFunc(texts, func(m string) bool { return strings.Contains(m, text) }) {
			return fmt.Sprintf("%q, not %q", texts, text)
		}
		return ""
	})
}
