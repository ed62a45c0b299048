package demand

import (
	"testing"

	corev1 "k8s.io/api/core/v1"

	"millwright/planner/options"
)

// The rules: scheduling §7.4.
func TestHostPortsClashByPortProtocolAndAddress(t *testing.T) {
	port := func(n int32, protocol corev1.Protocol, ip string) corev1.ContainerPort {
		return corev1.ContainerPort{ContainerPort: 8080, HostPort: n, Protocol: protocol, HostIP: ip}
	}
	ports := func(list ...corev1.ContainerPort) []HostPort {
		return HostPortsOf(&corev1.PodSpec{Containers: []corev1.Container{{Ports: list}}}, &options.Options{})
	}
	for name, tc := range map[string]struct {
		a, b []HostPort
		want bool
	}{
		"the same port":                    {ports(port(80, "TCP", "")), ports(port(80, "TCP", "")), true},
		"no protocol is TCP":               {ports(port(80, "", "")), ports(port(80, "TCP", "")), true},
		"another protocol":                 {ports(port(80, "UDP", "")), ports(port(80, "TCP", "")), false},
		"another port":                     {ports(port(81, "TCP", "")), ports(port(80, "TCP", "")), false},
		"the same address":                 {ports(port(80, "TCP", "10.0.0.1")), ports(port(80, "TCP", "10.0.0.1")), true},
		"another address":                  {ports(port(80, "TCP", "10.0.0.1")), ports(port(80, "TCP", "10.0.0.2")), false},
		"no address is all":                {ports(port(80, "TCP", "10.0.0.1")), ports(port(80, "TCP", "")), true},
		"0.0.0.0 is all":                   {ports(port(80, "TCP", "10.0.0.1")), ports(port(80, "TCP", "0.0.0.0")), true},
		":: is all":                        {ports(port(80, "TCP", "::")), ports(port(80, "TCP", "10.0.0.1")), true},
		"a port of the container alone":    {ports(port(0, "TCP", "")), ports(port(0, "TCP", "")), false},
		"one of several":                   {ports(port(80, "TCP", ""), port(90, "TCP", "")), ports(port(70, "TCP", ""), port(90, "TCP", "")), true},
		"nothing clashes with no port":     {nil, ports(port(80, "TCP", "")), false},
		"init containers have none at all": {HostPortsOf(&corev1.PodSpec{InitContainers: []corev1.Container{{Ports: []corev1.ContainerPort{port(80, "TCP", "")}}}}, &options.Options{}), ports(port(80, "TCP", "")), false},
	} {
		if Clash(tc.a, tc.b) != tc.want || Clash(tc.b, tc.a) != tc.want {
			t.Errorf("%s: clash is not %v, either way", name, tc.want)
		}
	}
}

// The rules: scheduling §7.4, §7.5.
func TestTheFirstTaintThatIsNotTolerated(t *testing.T) {
	taint := func(key, value string, effect corev1.TaintEffect) corev1.Taint {
		return corev1.Taint{Key: key, Value: value, Effect: effect}
	}
	hard, kill, soft := taint("a", "x", "NoSchedule"), taint("b", "", "NoExecute"), taint("c", "", "PreferNoSchedule")
	equal := corev1.Toleration{Key: "a", Operator: "Equal", Value: "x", Effect: "NoSchedule"}
	for name, tc := range map[string]struct {
		taints      []corev1.Taint
		tolerations []corev1.Toleration
		preferences bool
		wantKey     string
	}{
		"no taint":                              {},
		"a taint":                               {taints: []corev1.Taint{hard}, wantKey: "a"},
		"NoExecute is one":                      {taints: []corev1.Taint{kill}, wantKey: "b"},
		"PreferNoSchedule is none":              {taints: []corev1.Taint{soft}},
		"until it counts":                       {taints: []corev1.Taint{soft}, preferences: true, wantKey: "c"},
		"an equal toleration":                   {taints: []corev1.Taint{hard}, tolerations: []corev1.Toleration{equal}},
		"no operator is Equal":                  {taints: []corev1.Taint{hard}, tolerations: []corev1.Toleration{{Key: "a", Value: "x"}}},
		"another value":                         {taints: []corev1.Taint{hard}, tolerations: []corev1.Toleration{{Key: "a", Operator: "Equal", Value: "y"}}, wantKey: "a"},
		"Exists with whatever value":            {taints: []corev1.Taint{hard}, tolerations: []corev1.Toleration{{Key: "a", Operator: "Exists"}}},
		"Exists without a key is all":           {taints: []corev1.Taint{hard, kill}, tolerations: []corev1.Toleration{{Operator: "Exists"}}},
		"Exists of one effect":                  {taints: []corev1.Taint{hard, kill}, tolerations: []corev1.Toleration{{Operator: "Exists", Effect: "NoSchedule"}}, wantKey: "b"},
		"another effect":                        {taints: []corev1.Taint{hard}, tolerations: []corev1.Toleration{{Key: "a", Operator: "Exists", Effect: "NoExecute"}}, wantKey: "a"},
		"Equal without a key is none":           {taints: []corev1.Taint{kill}, tolerations: []corev1.Toleration{{Operator: "Equal"}}, wantKey: "b"},
		"an operator that nobody knows is none": {taints: []corev1.Taint{hard}, tolerations: []corev1.Toleration{{Key: "a", Operator: "Near"}}, wantKey: "a"},
		"the first of two that are not":         {taints: []corev1.Taint{hard, kill}, wantKey: "a"},
	} {
		got := Untolerated(tc.taints, tc.tolerations, tc.preferences)
		if (got == nil) != (tc.wantKey == "") || got != nil && got.Key != tc.wantKey {
			t.Errorf("%s: got %v, want the taint %q", name, got, tc.wantKey)
		}
	}
	if text := TaintText(&hard) + "; " + TaintText(&kill); text != "did not tolerate taint (taint=a=x:NoSchedule); did not tolerate taint (taint=b:NoExecute)" {
		t.Error(text)
	}
}
