package service

import "millwright/planner/ledger"

// controllers are Karpenter's controllers that do what a service decides (reference: operations §2.7).
var controllers = map[string]string{
	ledger.ServiceProvisioner: "provisioner", ledger.ServiceDisruptor: "disruption",
	ledger.ServiceTerminator: "node.termination", ledger.ServiceLifecycle: "nodeclaim.lifecycle",
}

// Controller is the name of a service in metrics that Karpenter has of its controllers.
func Controller(service string) string {
	if c, ok := controllers[service]; ok {
		return c
	}
	return service
}
