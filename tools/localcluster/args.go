package main

import (
	"strconv"
	"strings"

	nodestage "sigs.k8s.io/kwok/kustomize/stage/node/fast"
	heartbeatstage "sigs.k8s.io/kwok/kustomize/stage/node/heartbeat-with-lease"
	podstage "sigs.k8s.io/kwok/kustomize/stage/pod/fast"
)

func (c *cluster) apiServerArgs() []string {
	args := []string{
		"--etcd-servers=" + c.etcd.endpoint,
		"--bind-address=" + c.cfg.BindAddress,
		"--secure-port=" + strconv.Itoa(c.cfg.SecurePort),
		"--tls-cert-file=" + c.certs.path("apiserver.crt"),
		"--tls-private-key-file=" + c.certs.path("apiserver.key"),
		"--client-ca-file=" + c.certs.path("ca.crt"),
		"--service-account-issuer=https://kubernetes.default.svc",
		"--service-account-key-file=" + c.certs.path("service-account.pub"),
		"--service-account-signing-key-file=" + c.certs.path("service-account.key"),
		"--service-cluster-ip-range=" + c.cfg.ServiceCIDR,
		"--authorization-mode=Node,RBAC",
		"--allow-privileged=true",
		// The API server listens on loopback, an address that endpoints must not have.
		"--endpoint-reconciler-type=none",
		"--max-requests-inflight=1200",
		"--max-mutating-requests-inflight=600",
	}
	return append(args, c.cfg.APIServerArgs...)
}

func (c *cluster) controllerManagerArgs() []string {
	kubeconfig := c.kubeconfigPath(kubeControllerManager)
	args := []string{
		"--kubeconfig=" + kubeconfig,
		"--root-ca-file=" + c.certs.path("ca.crt"),
		"--service-account-private-key-file=" + c.certs.path("service-account.key"),
		"--use-service-account-credentials=true",
		"--leader-elect=false",
		"--secure-port=0",
		"--kube-api-qps=200",
		"--kube-api-burst=400",
	}
	return append(args, c.cfg.ControllerManagerArgs...)
}

func (c *cluster) schedulerArgs() []string {
	args := []string{
		"--kubeconfig=" + c.kubeconfigPath(kubeScheduler),
		"--leader-elect=false",
		"--secure-port=0",
		"--kube-api-qps=400",
		"--kube-api-burst=800",
	}
	return append(args, c.cfg.SchedulerArgs...)
}

func (c *cluster) kwokArgs(stages string) []string {
	return []string{
		"--kubeconfig=" + c.kubeconfigPath(kwokController),
		"--manage-nodes-with-annotation-selector=kwok.x-k8s.io/node=fake",
		"--manage-all-nodes=false",
		"--node-lease-duration-seconds=40",
		"--config=" + stages,
	}
}

// kwokStages are KWOK's own stages for nodes with leases and for pods.
func kwokStages() string {
	return strings.Join([]string{
		nodestage.DefaultNodeInit, heartbeatstage.DefaultNodeHeartbeatWithLease,
		podstage.DefaultPodReady, podstage.DefaultPodComplete, podstage.DefaultPodDelete,
	}, "\n---\n")
}
