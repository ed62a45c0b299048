package process

import (
	"errors"
	"fmt"
	"math"
	"net/netip"
	"path/filepath"
	"slices"
	"time"

	"github.com/spf13/pflag"

	"millwright/planner"
	"millwright/planner/ledger"
	"millwright/services/bucket"
	"millwright/services/internal/lease"
	"millwright/services/internal/retention"
	"millwright/services/internal/selfcheck"
	"millwright/services/transport"
)

// Settings of a process. Flags win over environment variables, whose names are the flags' in upper case with
// underscores (reference: operations §1).
type Settings struct {
	ClusterName     string
	ClusterEndpoint string
	ClusterCABundle string
	Kubeconfig      string
	KubeClientQPS   float32
	KubeClientBurst int

	EtcdEndpoints []string
	NATSURL       string
	// Security of the connections to both.
	transport.Security
	DataDir string
	// embeds: it may have a DataDir.
	embeds   bool
	Identity string
	Mode     string

	Adopt bool

	LeaderElectionName      string
	LeaderElectionNamespace string

	LogLevel    string
	MetricsPort int
	// MetricsAuthorization has /metrics served over TLS, and to who may get it alone.
	MetricsAuthorization bool
	// MetricsTLSCertFile and MetricsTLSKeyFile have /metrics served over TLS, with the certificate in them.
	MetricsTLSCertFile, MetricsTLSKeyFile string
	HealthProbePort                       int
	EnableProfiling                       bool
	// ProfilingAddress is of this machine alone: profiles show what the process has in memory.
	ProfilingAddress string
	// MetricsCompat, PodMetrics and ObjectMetrics add series to those that there are anyway.
	MetricsCompat, PodMetrics, ObjectMetrics bool
	MemoryLimit                              int64

	BatchIdleDuration     time.Duration
	BatchMaxDuration      time.Duration
	PreferencePolicy      string
	MinValuesPolicy       string
	FeatureGates          string
	NodeCost              float64
	EvictionCost          float64
	EvictionHorizon       time.Duration
	ConsolidationPatience float64
	PlacementHints        bool
	SurgePastBudgets      bool
	LaunchTimeout         time.Duration
	RegistrationTimeout   time.Duration

	CheckpointRecords   uint64
	ArchiveDir          string
	LogSigningKeyFile   string
	LogSigningKMSKeyID  string
	LogRetention        time.Duration
	LogRetentionRecords uint64
	EtcdQuotaBytes      int64
	// ReplayCheckInterval: a recorded decision is taken again so often at most; 0: none is.
	ReplayCheckInterval time.Duration
	// EtcdMetricsURLs and NATSMonitoringURLs are pages of external servers; none: where they usually are.
	EtcdMetricsURLs, NATSMonitoringURLs []string

	NATSReplicas       int
	NATSMaxAge         time.Duration
	NATSStreamMaxBytes int64
	NATSBucketMaxBytes int64

	IsolatedVPC             bool
	EKSControlPlane         bool
	EnableZonalShift        bool
	DisableDryRun           bool
	VMMemoryOverheadPercent float64
	ReservedENIs            int

	InterruptionQueue       string
	RebalanceRecommendation string
	RepairPolicies          string
	// repairPolicies are read from the file by Validate; nil: the default ones.
	repairPolicies []planner.RepairPolicy
}

// What is kept of the log unless set otherwise; package retention says what it means.
const (
	CheckpointRecordsDefault   = retention.EveryDefault
	LogRetentionDefault        = retention.AgeDefault
	LogRetentionRecordsDefault = retention.RecordsDefault
	EtcdQuotaDefault           = 8 << 30
	etcdQuotaMin               = 16 << 20
	natsBytesMin               = 16 << 20
)

// microUSD in a dollar; nodeCostMax and evictionCostMax in dollars.
const (
	microUSD           = 1_000_000
	nodeCostMax        = 1000
	evictionCostMax    = 1000
	evictionHorizonMin = time.Minute
	evictionHorizonMax = 30 * 24 * time.Hour
)

// queueNameMax bounds the name of an SQS queue.
const queueNameMax = 80

// Ports that are bound unless set otherwise.
const (
	MetricsPortDefault     = 8080
	HealthProbePortDefault = 8081
)

// ProfilingAddressDefault is where profiles are to be had, if they are asked for.
const ProfilingAddressDefault = "127.0.0.1:6060"

// BindProcess defines the flags that every process has.
func (s *Settings) BindProcess(f *pflag.FlagSet) {
	f.StringVar(&s.Kubeconfig, "kubeconfig", "", "kubeconfig file; empty: in-cluster configuration")
	f.Float32Var(&s.KubeClientQPS, "kube-client-qps", 200, "requests per second to the API server")
	f.IntVar(&s.KubeClientBurst, "kube-client-burst", 300, "burst of requests to the API server")
	f.StringVar(&s.LogLevel, "log-level", "info", "debug, info, warn or error")
	f.IntVar(&s.MetricsPort, "metrics-port", MetricsPortDefault, "port of /metrics; 0 picks a free one")
	f.BoolVar(&s.MetricsAuthorization, "metrics-authorization", false,
		"serve /metrics over TLS, and only to bearer tokens whose owner may get the nonResourceURL /metrics, by TokenReview and SubjectAccessReview")
	f.StringVar(&s.MetricsTLSCertFile, "metrics-tls-cert-file", "",
		"certificate of the port of /metrics, read again when it changes; empty: plain HTTP, or with --metrics-authorization one of its own, which nobody can verify")
	f.StringVar(&s.MetricsTLSKeyFile, "metrics-tls-key-file", "", "key of that certificate")
	f.IntVar(&s.HealthProbePort, "health-probe-port", HealthProbePortDefault, "port of /healthz and /readyz; 0 picks a free one")
	f.BoolVar(&s.EnableProfiling, "enable-profiling", false, "serve /debug/pprof on --profiling-address")
	f.StringVar(&s.ProfilingAddress, "profiling-address", ProfilingAddressDefault, "where --enable-profiling listens: a loopback address and a port; port 0 picks a free one")
	f.BoolVar(&s.MetricsCompat, "metrics-compat", false, "serve metrics that Karpenter has renamed under their former names too")
	f.Int64Var(&s.MemoryLimit, "memory-limit", -1, "bytes of memory the process should stay below: garbage is collected harder from 90 % of it; -1: none")
}

// BindLog defines the flags of every process that has a log.
func (s *Settings) BindLog(f *pflag.FlagSet) {
	s.BindProcess(f)
	f.StringVar(&s.ClusterName, "cluster-name", "", "name of the EKS cluster; required")
	f.StringSliceVar(&s.EtcdEndpoints, "etcd-endpoints", nil, "endpoints of the etcd that holds the event log; not with --data-dir")
	s.Security.Bind(f)
	f.StringVar(&s.Identity, "identity", "", "name of this instance in leader election; empty: host name and process id")
}

// Bind defines the flags of every process that has a log and a stream.
func (s *Settings) Bind(f *pflag.FlagSet) {
	o := planner.DefaultOptions()
	s.BindLog(f)
	f.StringVar(&s.NATSURL, "nats-url", "", "URL of the NATS servers that hold the observation stream; not with --data-dir")
	f.StringVar(&s.Mode, "mode", string(ledger.ModeActive), "active, or shadow: decide and record, but never act; for single services: active,provisioner=shadow")
	f.BoolVar(&s.Adopt, "adopt", false, "take over NodeClaims that name another event log: that log is lost, or given up")
	f.StringVar(&s.LeaderElectionName, "leader-election-name", lease.NameDefault,
		"name of the kube Lease that one installation, Karpenter's or Millwright's, holds to act on the cluster")
	f.StringVar(&s.LeaderElectionNamespace, "leader-election-namespace", "",
		"namespace of that Lease, the one Karpenter runs in; empty: the pod's, else "+namespaceDefault)
	f.DurationVar(&s.BatchIdleDuration, "batch-idle-duration", o.BatchIdleDuration, "plan when no new pod has come for this long")
	f.DurationVar(&s.BatchMaxDuration, "batch-max-duration", o.BatchMaxDuration, "plan at the latest this long after the first pod of a batch")
	f.StringVar(&s.PreferencePolicy, "preference-policy", o.PreferencePolicy, "Respect or Ignore preferred affinities and soft spreads")
	f.StringVar(&s.MinValuesPolicy, "min-values-policy", o.MinValuesPolicy, "Strict or BestEffort minValues of requirements")
	f.Float64Var(&s.NodeCost, "node-cost", float64(o.NodeCost)/microUSD, "USD per hour that a node costs by itself, whatever its type: DaemonSets, agents, addresses; 0: plan by price alone")
	f.Float64Var(&s.EvictionCost, "eviction-cost", float64(o.EvictionCost)/microUSD,
		"USD that consolidation must save for each pod that it evicts, within --eviction-horizon or as long as the NodePool has bought no node; 0: any saving will do")
	f.DurationVar(&s.EvictionHorizon, "eviction-horizon", o.EvictionHorizon, "how long a saving is expected to last at least")
	f.Float64Var(&s.ConsolidationPatience, "consolidation-patience", 0,
		"USD for each pod that consolidation would evict, which not evicting it must have cost before; 0: it does not wait")
	f.BoolVar(&s.PlacementHints, "placement-hints", true, "set status.nominatedNodeName of pods to the nodes planned for them, so that kube-scheduler follows the plan")
	f.BoolVar(&s.SurgePastBudgets, "surge-past-budgets", false,
		"a PodDisruptionBudget that never lets a pod go keeps no node where a DisruptionPolicy asks for surge and the pod's Deployment can replace it first; needs the rights to patch Deployments")
	f.BoolVar(&s.PodMetrics, "pod-metrics", false, "serve a series for each pod (karpenter_pods_state), and a few for each that waits: as many as the cluster has pods")
	f.BoolVar(&s.ObjectMetrics, "object-metrics", false, "serve a series for each status condition of each NodeClaim and node, also for those that are as they are to be")
	f.StringVar(&s.RepairPolicies, "repair-policies", "", "YAML file with the list of conditions for which nodes are replaced, with feature gate NodeRepair; empty: those of Karpenter's AWS provider")
	f.StringVar(&s.FeatureGates, "feature-gates", "", "Name=bool,…; NodeOverlay, NodeRepair, SpotToSpotConsolidation and CapacityBuffer (off unless set); unknown names are ignored, with a warning")
	f.StringVar(&s.RebalanceRecommendation, "rebalance-recommendation", planner.RebalanceIgnore,
		"Ignore, or Replace: spot nodes that EC2 recommends to leave are replaced within the budgets, as if they had drifted")
	f.DurationVar(&s.LaunchTimeout, "launch-timeout", o.LaunchTimeout, "delete a NodeClaim that has no instance for this long")
	f.DurationVar(&s.RegistrationTimeout, "registration-timeout", o.RegistrationTimeout, "delete a NodeClaim that has no node for this long")
}

// BindAWS defines the flags of processes that talk to AWS.
func (s *Settings) BindAWS(f *pflag.FlagSet) {
	f.StringVar(&s.ClusterEndpoint, "cluster-endpoint", "", "API server endpoint for nodes; empty: ask EKS")
	f.StringVar(&s.ClusterCABundle, "cluster-ca-bundle", "", "base64 CA bundle for nodes; empty: that of the kubeconfig")
	f.BoolVar(&s.EKSControlPlane, "eks-control-plane", false, "ask EKS which version of Kubernetes the cluster has, rather than the API server")
	f.BoolVar(&s.EnableZonalShift, "enable-zonal-shift", false, "launch nothing in zones that Amazon Application Recovery Controller shifts the cluster away from")
	f.StringVar(&s.InterruptionQueue, "interruption-queue", "", "name of the SQS queue with what AWS announces about instances; empty: none is read")
	f.BoolVar(&s.IsolatedVPC, "isolated-vpc", false, "no access to the pricing API: use built-in on-demand prices")
	f.BoolVar(&s.DisableDryRun, "disable-dry-run", false, "do not ask EC2 by dry runs whether launches from an EC2NodeClass are allowed")
	f.Float64Var(&s.VMMemoryOverheadPercent, "vm-memory-overhead-percent", 0.075, "fraction of an instance's memory lost to the hypervisor")
	f.IntVar(&s.ReservedENIs, "reserved-enis", 0, "network interfaces that are not counted for pods")
}

// BindStream defines the flags of processes that keep the stream of observations and the bucket beside it.
func (s *Settings) BindStream(f *pflag.FlagSet) {
	f.IntVar(&s.NATSReplicas, "nats-replicas", 0, "replicas of stream and bucket in an external NATS; 0: three on a cluster that has as many servers, else one")
	f.DurationVar(&s.NATSMaxAge, "nats-max-age", 0, "drop observations that are older; 0: 72h for a new stream, as it is for one that exists")
	f.Int64Var(&s.NATSStreamMaxBytes, "nats-stream-max-bytes", 0, "drop the oldest observations beyond; 0: 1 GiB for a new stream, as it is for one that exists")
	f.Int64Var(&s.NATSBucketMaxBytes, "nats-bucket-max-bytes", 0, "room for checkpoints and catalogues; 0: 1 GiB for a new bucket, as it is for one that exists")
}

// BindArchive defines the flag of processes that read what left the log.
func (s *Settings) BindArchive(f *pflag.FlagSet) {
	f.StringVar(&s.ArchiveDir, "archive-dir", "", "directory, or s3://BUCKET/PREFIX?…, to which old records of the log are moved; empty: DATA_DIR/archive, and none without --data-dir")
}

// BindRetention defines the flags of processes that keep the log.
func (s *Settings) BindRetention(f *pflag.FlagSet) {
	f.Uint64Var(&s.CheckpointRecords, "checkpoint-records", CheckpointRecordsDefault, "write a checkpoint of the ledger into the log every so many records")
	s.BindArchive(f)
	f.StringVar(&s.LogSigningKeyFile, "log-signing-key-file", "", "file with an Ed25519 key (PEM, PKCS #8) that signs the head of the log at each checkpoint; empty: none does")
	f.StringVar(&s.LogSigningKMSKeyID, "log-signing-kms-key-id", "", "Ed25519 key in AWS KMS, by id, ARN or alias, that signs it instead")
	f.DurationVar(&s.LogRetention, "log-retention", LogRetentionDefault, "archive records that are older")
	f.Uint64Var(&s.LogRetentionRecords, "log-retention-records", LogRetentionRecordsDefault, "archive records when there are that many newer ones")
	f.DurationVar(&s.ReplayCheckInterval, "replay-check-interval", selfcheck.EveryDefault,
		"take a recent decision again on what it was taken on, and compare it with its record, this long after the last time; 0: never")
	f.StringSliceVar(&s.EtcdMetricsURLs, "etcd-metrics-urls", nil, "metrics pages of etcd's members, which are looked at for unsafe settings (default: those of --etcd-endpoints)")
	f.StringSliceVar(&s.NATSMonitoringURLs, "nats-monitoring-urls", nil, "monitoring pages of NATS's servers, likewise (default: port 8222 of those of --nats-url)")
}

// BindEmbedded defines the flags of the process that can hold all servers itself.
func (s *Settings) BindEmbedded(f *pflag.FlagSet) {
	s.embeds = true
	f.Int64Var(&s.EtcdQuotaBytes, "etcd-quota-bytes", EtcdQuotaDefault, "size of the embedded etcd's database at which it takes no more writes")
	f.StringVar(&s.DataDir, "data-dir", "", "keep the log and the stream in embedded servers under this directory")
}

// FromEnvironment sets the flags that are not set on the command line from the environment. A value that
// can't be parsed is an error that names the variable.
func FromEnvironment(f *pflag.FlagSet, lookup func(string) (string, bool)) error {
	var errs []error
	f.VisitAll(func(flag *pflag.Flag) {
		name := transport.EnvironmentName(flag.Name)
		value, ok := lookup(name)
		if !ok || value == "" || flag.Changed {
			return
		}
		if err := flag.Value.Set(value); err != nil {
			errs = append(errs, fmt.Errorf("environment variable %s: %q is no %s: %w", name, value, flag.Value.Type(), err))
		}
	})
	return errors.Join(errs...)
}

// ValidateProcess reports the settings of BindProcess that make no sense, each by its flag.
func (s *Settings) ValidateProcess() error {
	var errs []error
	if !slices.Contains([]string{"debug", "info", "warn", "error"}, s.LogLevel) {
		errs = append(errs, fmt.Errorf("--log-level is debug, info, warn or error, not %q", s.LogLevel))
	}
	if !port(s.MetricsPort) || !port(s.HealthProbePort) {
		errs = append(errs, errors.New("a port is from 0 to 65535"))
	}
	if (s.MetricsTLSCertFile == "") != (s.MetricsTLSKeyFile == "") {
		errs = append(errs, errors.New("--metrics-tls-cert-file and --metrics-tls-key-file go together"))
	}
	if s.HealthProbePort == s.MetricsPort && s.MetricsPort != 0 && (s.MetricsAuthorization || s.MetricsTLSCertFile != "") {
		errs = append(errs, fmt.Errorf("--metrics-port and --health-probe-port are both %d: probes are plain HTTP, so metrics over TLS take a port of their own", s.MetricsPort))
	}
	if !isLoopback(s.ProfilingAddress) {
		errs = append(errs, fmt.Errorf("--profiling-address is a loopback address with a port, such as %s, not %q: profiles show what is in memory, "+
			"and whoever may ask for them can slow the process down; reach them from elsewhere by kubectl port-forward", ProfilingAddressDefault, s.ProfilingAddress))
	}
	return errors.Join(errs...)
}

// ValidateLog reports the settings of BindLog and BindArchive that make no sense, each by its flag.
func (s *Settings) ValidateLog() error {
	errs := []error{s.ValidateProcess(), s.Security.Check(s.EtcdEndpoints, s.NATSURL)}
	if s.ClusterName == "" {
		errs = append(errs, errors.New("missing --cluster-name (CLUSTER_NAME)"))
	}
	if s.DataDir == "" && len(s.EtcdEndpoints) == 0 {
		missing := "missing --etcd-endpoints (ETCD_ENDPOINTS)"
		if s.embeds {
			missing = "missing --data-dir (DATA_DIR), or --etcd-endpoints and --nats-url (ETCD_ENDPOINTS, NATS_URL)"
		}
		errs = append(errs, errors.New(missing))
	}
	if bucket.Is(s.ArchiveDir) {
		if _, err := bucket.Parse(s.ArchiveDir); err != nil {
			errs = append(errs, fmt.Errorf("--archive-dir: %w", err))
		}
	}
	return errors.Join(errs...)
}

// Validate reports all settings that make no sense, each by its flag.
func (s *Settings) Validate() error {
	errs := []error{s.ValidateLog()}
	refuse := func(bad bool, format string, args ...any) {
		if bad {
			errs = append(errs, fmt.Errorf(format, args...))
		}
	}
	refuse(s.DataDir != "" && (len(s.EtcdEndpoints) > 0 || s.NATSURL != ""),
		"--data-dir goes with neither --etcd-endpoints nor --nats-url")
	refuse(s.DataDir == "" && s.NATSURL == "" && (!s.embeds || len(s.EtcdEndpoints) > 0), "missing --nats-url (NATS_URL)")
	if _, err := parseModes(s.Mode); err != nil {
		errs = append(errs, err)
	}
	refuse(s.LeaderElectionName == "", "--leader-election-name is empty")
	refuse(!slices.Contains([]string{"Respect", "Ignore"}, s.PreferencePolicy), "--preference-policy is Respect or Ignore, not %q", s.PreferencePolicy)
	refuse(!slices.Contains([]string{"Strict", "BestEffort"}, s.MinValuesPolicy), "--min-values-policy is Strict or BestEffort, not %q", s.MinValuesPolicy)
	refuse(!slices.Contains([]string{planner.RebalanceIgnore, planner.RebalanceReplace}, s.RebalanceRecommendation),
		"--rebalance-recommendation is Ignore or Replace, not %q", s.RebalanceRecommendation)
	refuse(len(s.InterruptionQueue) > queueNameMax, "--interruption-queue is the name of a queue, at most %d characters long", queueNameMax)
	if err := s.readRepairPolicies(); err != nil {
		errs = append(errs, fmt.Errorf("--repair-policies: %w", err))
	}
	if err := new(planner.Options).SetFeatureGates(s.FeatureGates); err != nil {
		errs = append(errs, fmt.Errorf("--feature-gates: %w", err))
	}
	refuse(!(s.NodeCost >= 0 && s.NodeCost <= nodeCostMax), "--node-cost must be from 0 to %d, is %v", nodeCostMax, s.NodeCost)
	refuse(!(s.EvictionCost >= 0 && s.EvictionCost <= evictionCostMax), "--eviction-cost must be from 0 to %d, is %v", evictionCostMax, s.EvictionCost)
	refuse(s.EvictionHorizon < evictionHorizonMin || s.EvictionHorizon > evictionHorizonMax,
		"--eviction-horizon must be from %s to %s, is %s", evictionHorizonMin, evictionHorizonMax, s.EvictionHorizon)
	refuse(!(s.ConsolidationPatience >= 0 && s.ConsolidationPatience <= evictionCostMax), "--consolidation-patience must be from 0 to %d, is %v",
		evictionCostMax, s.ConsolidationPatience)
	refuse(s.BatchIdleDuration <= 0, "--batch-idle-duration must be positive, is %s", s.BatchIdleDuration)
	refuse(s.BatchMaxDuration < s.BatchIdleDuration, "--batch-max-duration (%s) is shorter than --batch-idle-duration (%s)",
		s.BatchMaxDuration, s.BatchIdleDuration)
	refuse(s.LaunchTimeout <= 0, "--launch-timeout must be positive, is %s", s.LaunchTimeout)
	refuse(s.RegistrationTimeout <= 0, "--registration-timeout must be positive, is %s", s.RegistrationTimeout)
	refuse(s.VMMemoryOverheadPercent < 0 || s.VMMemoryOverheadPercent >= 1,
		"--vm-memory-overhead-percent is a fraction from 0 to below 1, not %v", s.VMMemoryOverheadPercent)
	refuse(s.ReservedENIs < 0, "--reserved-enis cannot be negative")
	refuse(s.NATSReplicas < 0 || s.NATSReplicas > 5, "--nats-replicas is from 0 to 5, not %d", s.NATSReplicas)
	refuse(s.NATSMaxAge < 0, "--nats-max-age cannot be negative")
	refuse(bytesOutOfRange(s.NATSStreamMaxBytes), "--nats-stream-max-bytes must be at least %d, is %d", natsBytesMin, s.NATSStreamMaxBytes)
	refuse(bytesOutOfRange(s.NATSBucketMaxBytes), "--nats-bucket-max-bytes must be at least %d, is %d", natsBytesMin, s.NATSBucketMaxBytes)
	refuse(s.LogSigningKeyFile != "" && s.LogSigningKMSKeyID != "", "--log-signing-key-file and --log-signing-kms-key-id: name one key")
	refuse(s.LogRetention < 0, "--log-retention cannot be negative")
	refuse(s.ReplayCheckInterval < 0, "--replay-check-interval cannot be negative")
	refuse(s.DataDir != "" && s.EtcdQuotaBytes < etcdQuotaMin, "--etcd-quota-bytes must be at least %d, is %d", etcdQuotaMin, s.EtcdQuotaBytes)
	return errors.Join(errs...)
}

// Archive is the directory or bucket of the archive; empty: there is none.
func (s *Settings) Archive() string {
	if s.ArchiveDir == "" && s.DataDir != "" {
		return filepath.Join(s.DataDir, "archive")
	}
	return s.ArchiveDir
}

func bytesOutOfRange(n int64) bool { return n != 0 && n < natsBytesMin }

func port(p int) bool { return p >= 0 && p <= 65535 }

// isLoopback reports that an address and port can be reached from this machine alone. A host name does not
// count: what it stands for is decided elsewhere.
func isLoopback(address string) bool {
	a, err := netip.ParseAddrPort(address)
	return err == nil && a.Addr().IsLoopback()
}

// Patience is what an eviction counts while consolidation waits, in micro USD.
func (s *Settings) Patience() int64 { return int64(math.Round(s.ConsolidationPatience * microUSD)) }

// Options are the settings that can change a decision.
func (s *Settings) Options() planner.Options {
	o := planner.PresentOptions()
	o.BatchIdleDuration, o.BatchMaxDuration = s.BatchIdleDuration, s.BatchMaxDuration
	o.PreferencePolicy, o.MinValuesPolicy = s.PreferencePolicy, s.MinValuesPolicy
	if s.RebalanceRecommendation == planner.RebalanceReplace {
		o.Rebalance = planner.RebalanceReplace
	}
	o.RepairPolicies = s.repairPolicies
	o.NodeCost = int64(math.Round(s.NodeCost * microUSD))
	o.EvictionCost, o.EvictionHorizon = int64(math.Round(s.EvictionCost*microUSD)), s.EvictionHorizon
	_ = o.SetFeatureGates(s.FeatureGates) // Validate has read them
	o.LaunchTimeout, o.RegistrationTimeout = s.LaunchTimeout, s.RegistrationTimeout
	o.SurgeFirst = s.SurgePastBudgets
	return o
}
