package e2e

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"millwright/planner/ledger"
	"millwright/tools/stack"
)

// TestLaunchInALocalZone: who selects a subnet in a local or a Wavelength zone gets nodes there, of the few
// types that the zone has, at the zone's prices and, in a Wavelength zone, on demand alone; pods that do not
// ask for the zone run in the region. Zones whose group the account has not opted in to are not there.
func TestLaunchInALocalZone(t *testing.T) {
	const local, wavelength = "us-west-2-lax-1a", "us-west-2-wl1-las-wlz-1"
	e := start(t, func(o *stack.Options) {
		o.EC2SimArgs = append(o.EC2SimArgs, "--zone-groups", "us-west-2-lax-1,us-west-2-wl1")
	})
	d, err := e.ec2.Defaults(e.Context())
	if err != nil {
		t.Fatal(err)
	}
	e.apply(strings.Replace(defaultClass, "{tags: {karpenter.sh/discovery: demo}}]\n  security",
		"{tags: {karpenter.sh/discovery: demo}}, {id: "+d.Subnets[local]+"}, {id: "+d.Subnets[wavelength]+"}]\n  security", 1))
	e.apply(strings.NewReplacer("values: [c, m, r]", "values: [c, m, r, t]", "values: [on-demand]", "values: [on-demand, spot]").Replace(defaultPool))
	for app, zone := range map[string]string{"local": local, "wavelength": wavelength} {
		e.deploy(app, 1, "1", "1Gi", inZone(zone))
	}
	for _, app := range []string{"local", "wavelength"} { // before there is room beside the next
		e.running(app, 1)
	}
	onDemand := func(p *corev1.PodTemplateSpec) {
		p.Spec.NodeSelector = map[string]string{labelCapacityType: "on-demand", corev1.LabelTopologyZone: local}
	}
	e.deploy("bought", 1, "3", "1Gi", onDemand)
	e.deploy("absent", 1, "1", "1Gi", inZone("us-west-2-den-1a"))
	e.running("bought", 1)
	launched := map[string]ledger.Launched{}
	for _, l := range e.launches() {
		launched[l.ProviderID] = l
	}
	for app, zone := range map[string]string{"local": local, "wavelength": wavelength, "bought": local} {
		n, err := e.nodeUnder(app)
		if err != nil {
			t.Fatal(err)
		}
		i := e.instanceOf(n.Name)
		if i.Zone != zone || n.Labels[corev1.LabelTopologyZone] != zone || n.Labels[corev1.LabelTopologyRegion] != "us-west-2" || !strings.HasPrefix(n.Spec.ProviderID, "aws:///"+zone+"/") {
			t.Errorf("%s runs on %s in %s: %v", app, n.Spec.ProviderID, i.Zone, n.Labels)
		}
		if app == "wavelength" && i.CapacityType != "on-demand" || app == "local" && i.CapacityType != "spot" {
			t.Errorf("%s runs on a %s instance", app, i.CapacityType)
		}
		if l := launched[n.Spec.ProviderID]; app == "bought" && (l.InstanceType != "t3.xlarge" || l.Price != 199_700) {
			t.Errorf("launched is a %s for %d; a t3.xlarge costs 199700 there and 166400 in the region", l.InstanceType, l.Price)
		}
		if out, code := e.millctl("why", "node", n.Name); code != 0 || !strings.Contains(out, "in "+zone+" at $") {
			t.Errorf("why node %s: exit %d\n%s", n.Name, code, out)
		}
	}
	if p := e.podOf("absent"); p == nil || p.Spec.NodeName != "" {
		t.Errorf("a pod that asks for a zone which the account has not opted in to: %v", p)
	}
	e.deploy("anywhere", 1, "3", "1Gi")
	e.running("anywhere", 1)
	if n, err := e.nodeUnder("anywhere"); err != nil || strings.Count(n.Labels[corev1.LabelTopologyZone], "-") > 2 {
		t.Errorf("a pod that asks for no zone runs in %v, %v", n.Labels, err)
	}
	e.matched()
	for _, app := range []string{"local", "wavelength", "bought", "anywhere", "absent"} {
		e.scale(app, 0)
	}
	e.clean()
	e.sound()
}
