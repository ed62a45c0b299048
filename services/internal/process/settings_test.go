package process

import (
	"strings"
	"testing"
	"time"

	"github.com/spf13/pflag"
)

func settings(t *testing.T, args []string, env map[string]string) (Settings, error) {
	t.Helper()
	var s Settings
	f := pflag.NewFlagSet("test", pflag.ContinueOnError)
	s.Bind(f)
	s.BindAWS(f)
	s.BindEmbedded(f)
	if err := f.Parse(args); err != nil {
		return s, err
	}
	err := FromEnvironment(f, func(name string) (string, bool) { v, ok := env[name]; return v, ok })
	if err != nil {
		return s, err
	}
	return s, s.Validate()
}

func TestSettings(t *testing.T) {
	embedded := []string{"--cluster-name=c", "--data-dir=/d"}
	with := func(more ...string) []string { return append(append([]string{}, embedded...), more...) }
	cases := map[string]struct {
		args    []string
		env     map[string]string
		refused string
		check   func(Settings) bool
	}{
		"defaults are valid beside a cluster name and a data directory": {args: embedded,
			check: func(s Settings) bool { return s.MetricsPort == 8080 && s.HealthProbePort == 8081 }},
		"the environment sets what flags do not": {env: map[string]string{"CLUSTER_NAME": "e", "DATA_DIR": "/e", "BATCH_IDLE_DURATION": "1s"},
			check: func(s Settings) bool { return s.ClusterName == "e" && s.BatchIdleDuration == time.Second }},
		"a flag wins over the environment": {args: embedded, env: map[string]string{"CLUSTER_NAME": "e"},
			check: func(s Settings) bool { return s.ClusterName == "c" }},
		"an empty variable counts as not set": {args: embedded, env: map[string]string{"METRICS_PORT": ""},
			check: func(s Settings) bool { return s.MetricsPort == 8080 }},
		"a list is split at commas": {args: []string{"--cluster-name=c", "--nats-url=tls://n"}, env: map[string]string{"ETCD_ENDPOINTS": "https://a:1,https://b:2"},
			check: func(s Settings) bool { return len(s.EtcdEndpoints) == 2 }},
		"a duration without unit is an error that names the variable": {args: embedded,
			env: map[string]string{"BATCH_MAX_DURATION": "10"}, refused: "BATCH_MAX_DURATION"},
		"a port that is no number is an error that names the variable": {args: embedded,
			env: map[string]string{"METRICS_PORT": "http"}, refused: "METRICS_PORT"},
		"all bad variables are named at once": {args: embedded,
			env: map[string]string{"METRICS_PORT": "x", "RESERVED_ENIS": "y"}, refused: "RESERVED_ENIS"},
		"a cluster name is required":                   {args: []string{"--data-dir=/d"}, refused: "CLUSTER_NAME"},
		"without a data directory etcd is required":    {args: []string{"--cluster-name=c", "--nats-url=n"}, refused: "ETCD_ENDPOINTS"},
		"without either a data directory will do":      {args: []string{"--cluster-name=c"}, refused: "missing --data-dir (DATA_DIR), or --etcd-endpoints and --nats-url"},
		"without a data directory NATS is required":    {args: []string{"--cluster-name=c", "--etcd-endpoints=e"}, refused: "NATS_URL"},
		"embedded and external do not mix":             {args: with("--nats-url=n"), refused: "--data-dir goes with neither"},
		"an unknown mode is refused":                   {args: with("--mode=dry"), refused: `not "dry"`},
		"an unknown log level is refused":              {args: with("--log-level=loud"), refused: `not "loud"`},
		"an unknown policy is refused":                 {args: with("--min-values-policy=Lax"), refused: `not "Lax"`},
		"a batch that ends before it idles is refused": {args: with("--batch-idle-duration=20s"), refused: "shorter than"},
		"an unknown feature gate is no error":          {args: with("--feature-gates=NodeOverlays=true")},
		"a feature gate needs a value":                 {args: with("--feature-gates=NodeOverlay"), refused: `"NodeOverlay" has no value`},
		"a feature gate is true or false":              {args: with("--feature-gates=NodeRepair=on"), refused: `feature gate NodeRepair: "on" is neither`},
		"so is an unknown one":                         {args: with("--feature-gates=NodeRepairs=on"), refused: `feature gate NodeRepairs: "on" is neither`},
		"a memory overhead of all memory is refused":   {args: with("--vm-memory-overhead-percent=1"), refused: "fraction"},
		"a port out of range is refused":               {args: with("--metrics-port=70000"), refused: "65535"},
		"a certificate of the metrics without its key": {args: with("--metrics-tls-cert-file=x"), refused: "--metrics-tls-key-file go together"},
		"metrics over TLS beside probes without":       {args: with("--metrics-authorization", "--metrics-port=8081"), refused: "a port of their own"},
		"metrics over TLS":                             {args: with("--metrics-authorization"), check: func(s Settings) bool { return s.MetricsAuthorization }},
		"profiles for the whole network are refused":   {args: with("--profiling-address=:6060"), refused: "--profiling-address is a loopback address"},
		"profiles for other machines are refused":      {args: with("--enable-profiling", "--profiling-address=10.0.0.1:6060"), refused: `not "10.0.0.1:6060"`},
		"a name may be that of another machine":        {args: with("--profiling-address=localhost:6060"), refused: "--profiling-address is a loopback address"},
		"profiles without a port are refused":          {args: with("--profiling-address=127.0.0.1"), refused: "--profiling-address is a loopback address"},
		"profiles for this machine":                    {args: with("--profiling-address=[::1]:0"), check: func(s Settings) bool { return !s.EnableProfiling }},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			s, err := settings(t, c.args, c.env)
			switch {
			case c.refused == "" && err != nil:
				t.Fatalf("refused: %v", err)
			case c.refused != "" && (err == nil || !strings.Contains(err.Error(), c.refused)):
				t.Fatalf("got error %v, want one with %q", err, c.refused)
			case c.check != nil && !c.check(s):
				t.Fatalf("got %+v", s)
			}
		})
	}
}

func TestOptionsCarryTheSettings(t *testing.T) {
	s, err := settings(t, []string{"--cluster-name=c", "--data-dir=/d", "--launch-timeout=7m", "--preference-policy=Ignore"}, nil)
	if err != nil {
		t.Fatal(err)
	}
	if o := s.Options(); o.LaunchTimeout != 7*time.Minute || o.PreferencePolicy != "Ignore" || o.DisruptFreshness != 3*time.Second {
		t.Fatalf("got %+v", o)
	}
}
