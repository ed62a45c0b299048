package main

import (
	"bytes"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"millwright/services/transport"
)

func command(t *testing.T, name string) *cobra.Command {
	t.Helper()
	for _, c := range newRoot().Commands() {
		if c.Name() == name {
			return c
		}
	}
	t.Fatalf("no command %s", name)
	return nil
}

func execute(args ...string) (string, error) {
	root := newRoot()
	var out bytes.Buffer
	root.SetOut(&out)
	root.SetErr(&out)
	root.SetArgs(args)
	err := root.Execute()
	return out.String(), err
}

func TestCommands(t *testing.T) {
	for _, name := range append([]string{"all", "console"}, allServices...) {
		c := command(t, name)
		if c.Short == "" || c.Long == "" {
			t.Errorf("%s has no help", name)
		}
		c.Flags().VisitAll(func(f *pflag.Flag) {
			if f.Usage == "" {
				t.Errorf("%s --%s has no help", name, f.Name)
			}
		})
		for _, flag := range []string{"cluster-name", "kubeconfig", "etcd-endpoints", "nats-url", "mode", "log-level", "metrics-port", "health-probe-port"} {
			if c.Flags().Lookup(flag) == nil {
				t.Errorf("%s lacks --%s", name, flag)
			}
		}
		if people := c.Flags().Lookup("console-address") != nil; people != (name == "all" || name == "console") {
			t.Errorf("%s has --console-address: %v", name, people)
		}
		if embedded := c.Flags().Lookup("data-dir") != nil; embedded != (name == "all") {
			t.Errorf("%s has --data-dir: %v", name, embedded)
		}
	}
}

func TestFlagsAreTheVariablesUsersKnow(t *testing.T) {
	known := []string{"CLUSTER_NAME", "KUBECONFIG", "METRICS_PORT", "HEALTH_PROBE_PORT", "BATCH_IDLE_DURATION", "BATCH_MAX_DURATION",
		"LOG_LEVEL", "CLUSTER_ENDPOINT", "CLUSTER_CA_BUNDLE", "VM_MEMORY_OVERHEAD_PERCENT", "RESERVED_ENIS", "ISOLATED_VPC", "EKS_CONTROL_PLANE", "ENABLE_ZONAL_SHIFT",
		"KUBE_CLIENT_QPS", "KUBE_CLIENT_BURST", "PREFERENCE_POLICY", "MIN_VALUES_POLICY", "ENABLE_PROFILING"}
	have := map[string]bool{}
	command(t, "all").Flags().VisitAll(func(f *pflag.Flag) { have[transport.EnvironmentName(f.Name)] = true })
	for _, name := range known {
		if !have[name] {
			t.Errorf("%s can't be set", name)
		}
	}
}

func TestBadSettingsAreRefusedBeforeAnythingStarts(t *testing.T) {
	cases := map[string]struct {
		env  map[string]string
		args []string
		want string
	}{
		"a variable that can't be parsed":  {env: map[string]string{"BATCH_MAX_DURATION": "10"}, args: []string{"all"}, want: "BATCH_MAX_DURATION"},
		"no cluster name":                  {args: []string{"all", "--data-dir=d"}, want: "CLUSTER_NAME"},
		"a service without etcd":           {args: []string{"provisioner", "--cluster-name=c", "--nats-url=n"}, want: "ETCD_ENDPOINTS"},
		"an address without a port":        {args: []string{"all", "--cluster-name=c", "--data-dir=d", "--console-address=here"}, want: "--console-address"},
		"a certificate without its key":    {args: []string{"all", "--cluster-name=c", "--data-dir=d", "--console-tls-cert-file=x"}, want: "--console-tls-key-file"},
		"arguments that are no flags":      {args: []string{"all", "now"}, want: "unknown command"},
		"a flag the service does not have": {args: []string{"provisioner", "--data-dir=d"}, want: "unknown flag"},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			for _, key := range []string{"CLUSTER_NAME", "ETCD_ENDPOINTS", "NATS_URL", "DATA_DIR"} {
				t.Setenv(key, "")
			}
			for key, value := range c.env {
				t.Setenv(key, value)
			}
			_, err := execute(c.args...)
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("got %v, want %q", err, c.want)
			}
		})
	}
}

func TestVersion(t *testing.T) {
	out, err := execute("version")
	if err != nil || strings.TrimSpace(out) == "" {
		t.Errorf("printed %q, error %v", out, err)
	}
}

func TestTheWebhookNeedsTheAPIServerAlone(t *testing.T) {
	c := command(t, "webhook")
	for _, flag := range []string{"kubeconfig", "log-level", "metrics-port", "health-probe-port", "webhook-port", "karpenter-service", "system-namespace", "webhook-secret", "webhook-url"} {
		if f := c.Flags().Lookup(flag); f == nil || f.Usage == "" {
			t.Errorf("webhook lacks --%s, or its help", flag)
		}
	}
	for _, flag := range []string{"etcd-endpoints", "nats-url", "cluster-name"} {
		if c.Flags().Lookup(flag) != nil {
			t.Errorf("webhook has --%s", flag)
		}
	}
	_, err := execute("webhook", "--webhook-url=http://plain", "--log-level=loud", "--webhook-port=99999")
	for _, want := range []string{"--webhook-url", "--log-level", "--webhook-port"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %s in it", err, want)
		}
	}
}
