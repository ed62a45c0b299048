package e2e

import (
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
)

// TestWindows: classes of each Windows release launch instances that read our PowerShell, join, and run pods
// for Windows.
func TestWindows(t *testing.T) {
	e := start(t, nil)
	for year, build := range map[string]string{"2019": "10.0.17763", "2022": "10.0.20348", "2025": "10.0.26100"} {
		if year == "2025" && !e.since(35) {
			continue
		}
		name := "windows" + year
		e.apply(strings.NewReplacer("{name: default}", "{name: "+name+"}", "al2023@latest", name+"@latest").Replace(defaultClass) +
			"  userData: \"Write-Host \\\"it's `$ready\\\"\"\n")
		e.apply(strings.NewReplacer("name: default}", "name: "+name+"}").Replace(defaultPool))
		e.deploy(name, 1, "1", "1Gi", func(p *corev1.PodTemplateSpec) {
			p.Spec.NodeSelector = map[string]string{corev1.LabelOSStable: "windows", corev1.LabelWindowsBuild: build}
		})
		e.running(name, 1)
		e.eventually("the node is a Windows node and initialized", func() string {
			n, err := e.nodeUnder(name)
			if err != nil {
				return err.Error()
			}
			if n.Labels[corev1.LabelWindowsBuild] != build || n.Status.NodeInfo.OperatingSystem != "windows" || n.Labels["karpenter.sh/initialized"] != "true" {
				return fmt.Sprintf("%s: node %s: %v, %s", name, n.Name, n.Labels, n.Status.NodeInfo.OperatingSystem)
			}
			return ""
		})
		e.scale(name, 0)
	}
	e.matched()
	e.clean()
	e.sound()
}

// since reports that the cluster is of Kubernetes 1.minor or later.
func (e *env) since(minor int) bool {
	e.Helper()
	v, err := e.kube.Discovery().ServerVersion()
	if err != nil {
		e.Fatal(err)
	}
	var have int
	if _, err := fmt.Sscanf(v.Minor, "%d", &have); err != nil {
		e.Fatal(err)
	}
	return have >= minor
}
