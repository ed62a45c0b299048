package demand

import (
	"cmp"

	corev1 "k8s.io/api/core/v1"

	"millwright/planner/options"
)

// HostPort is a port of the node that a container takes. ip is "" if it takes the port on every address.
type HostPort struct {
	ip       string
	protocol corev1.Protocol
	port     int32
}

// HostPortsOf lists the host ports of a pod's containers and, from Revision1 on, of its sidecars, not of
// other init containers (scheduling §7.4). A pod on the host's network takes all ports of its containers: the
// API server says so in pods, but not in templates, where it counts from Revision1 on.
func HostPortsOf(spec *corev1.PodSpec, o *options.Options) []HostPort {
	var ports []HostPort
	for i := range spec.Containers {
		ports = appendHostPorts(ports, &spec.Containers[i], spec.HostNetwork && o.Revision >= options.Revision1)
	}
	if o.Revision < options.Revision1 {
		return ports
	}
	for i := range spec.InitContainers {
		if r := spec.InitContainers[i].RestartPolicy; r != nil && *r == corev1.ContainerRestartPolicyAlways {
			ports = appendHostPorts(ports, &spec.InitContainers[i], spec.HostNetwork)
		}
	}
	return ports
}

// appendHostPorts adds those of a container; all its ports are the host's if it is on the host's network.
func appendHostPorts(ports []HostPort, c *corev1.Container, byNetwork bool) []HostPort {
	for _, p := range c.Ports {
		if byNetwork {
			p.HostPort = cmp.Or(p.HostPort, p.ContainerPort)
		}
		if p.HostPort == 0 {
			continue
		}
		h := HostPort{ip: p.HostIP, protocol: cmp.Or(p.Protocol, corev1.ProtocolTCP), port: p.HostPort}
		if h.ip == "0.0.0.0" || h.ip == "::" {
			h.ip = ""
		}
		ports = append(ports, h)
	}
	return ports
}

// Clash reports that both lists want the same port on addresses that overlap.
func Clash(a, b []HostPort) bool {
	for _, x := range a {
		for _, y := range b {
			if x.port == y.port && x.protocol == y.protocol && (x.ip == y.ip || x.ip == "" || y.ip == "") {
				return true
			}
		}
	}
	return false
}
