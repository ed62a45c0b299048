package main

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"os"
	"slices"
	"time"

	awssdk "github.com/aws/aws-sdk-go-v2/aws"
	awshttp "github.com/aws/aws-sdk-go-v2/aws/transport/http"
	"github.com/aws/aws-sdk-go-v2/service/sqs"
	"github.com/rs/zerolog"
	"golang.org/x/sync/errgroup"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

	awsv1 "millwright/api/karpenteraws/v1"
	"millwright/planner/ledger"
	"millwright/services/internal/clock"
	"millwright/services/internal/ec2"
	"millwright/services/internal/host/step"
	"millwright/services/internal/kube"
	"millwright/services/internal/lease"
	"millwright/services/internal/process"
	"millwright/services/internal/retention"
	"millwright/services/lifecycle"
	"millwright/services/lifecycle/launch"
	"millwright/services/lifecycle/nodeclass"
	"millwright/services/signing"
	"millwright/services/version"
	"millwright/services/watcher"
	watcherec2 "millwright/services/watcher/ec2"
	"millwright/services/watcher/queue"
	"millwright/store/audit/heads"
)

// cloud is what the services of one process share for AWS.
type cloud struct {
	ec2     *ec2.Client
	budgets *ec2.Budgets
	cluster *launch.ClusterSource
	hasher  nodeclass.Hasher
}

// aws connects to AWS once per process.
func (b *builder) aws(ctx context.Context) (*cloud, error) {
	if b.cloud != nil {
		return b.cloud, nil
	}
	sdk, err := b.sdk(ctx)
	if err != nil {
		return nil, err
	}
	budgets := ec2.NewBudgets(ec2.RoleActing, b.registry)
	client, err := ec2.New(ctx, ec2.Config{Cluster: b.settings.ClusterName, Version: version.Version, AWS: &sdk, Registerer: b.registry, Budgets: budgets})
	if err != nil {
		return nil, err
	}
	ca, err := caBundle(b.settings.ClusterCABundle, b.config)
	if err != nil {
		return nil, err
	}
	own, err := caBundle("", b.config)
	if err != nil {
		return nil, err
	}
	b.cloud = &cloud{ec2: client, budgets: budgets, hasher: nodeclass.NewHasher(b.settings.ClusterCABundle, own), cluster: launch.NewClusterSource(launch.ClusterConfig{
		Given:    launch.Cluster{Name: b.settings.ClusterName, Endpoint: b.settings.ClusterEndpoint, CABundle: ca},
		Describe: client.DescribeCluster, DNS: b.clusterDNS, Version: b.kubernetesVersion, VersionOfEKS: b.settings.EKSControlPlane, Now: b.clock.Now,
	})}
	return b.cloud, nil
}

// sdk is the configuration of the AWS SDK, whose calls are measured and whose answers are witnesses of the
// time.
func (b *builder) sdk(ctx context.Context) (awssdk.Config, error) {
	sdk, err := ec2.LoadConfig(ctx, version.Version)
	if err == nil {
		sdk = ec2.Measured(sdk, b.registry)
		sdk.HTTPClient = b.clock.Client(clock.AWS, sdk.HTTPClient)
	}
	return sdk, err
}

// caBundle is the flag's, otherwise the one by which this process trusts the API server.
func caBundle(flag string, cfg *rest.Config) (string, error) {
	switch {
	case flag != "":
		return flag, nil
	case len(cfg.CAData) > 0:
		return base64.StdEncoding.EncodeToString(cfg.CAData), nil
	case cfg.CAFile != "":
		data, err := os.ReadFile(cfg.CAFile)
		if err != nil {
			return "", fmt.Errorf("read cluster CA: %w", err)
		}
		return base64.StdEncoding.EncodeToString(data), nil
	}
	return "", nil
}

// clusterDNS is the address of the Service kube-dns; "" if the cluster has none.
func (b *builder) clusterDNS(ctx context.Context) (string, error) {
	svc, err := b.kube.Core.CoreV1().Services("kube-system").Get(ctx, "kube-dns", metav1.GetOptions{})
	if kube.IsNotFound(err) {
		return "", nil
	}
	if err != nil {
		return "", fmt.Errorf("get service kube-dns: %w", err)
	}
	return svc.Spec.ClusterIP, nil
}

// kubernetesVersion is the API server's, as major.minor.
func (b *builder) kubernetesVersion(context.Context) (string, error) {
	v, err := b.kube.Core.Discovery().ServerVersion()
	if err != nil {
		return "", fmt.Errorf("ask API server for its version: %w", err)
	}
	minor := v.Minor
	for i, r := range minor { // some servers say "33+"
		if r < '0' || r > '9' {
			minor = minor[:i]
			break
		}
	}
	return v.Major + "." + minor, nil
}

// awsWatcher returns a function that builds the half of the watcher that polls AWS.
func (b *builder) awsWatcher(ctx context.Context, logger zerolog.Logger) (func(watcher.Emitter) (watcher.AWS, error), error) {
	sdk, err := b.sdk(ctx)
	if err != nil {
		return nil, err
	}
	cloud, pricing := watcherec2.Clients(ec2.NewBudgets(ec2.RoleWatching, b.registry).Bind(sdk))
	informers := b.watchCluster()
	return func(e watcher.Emitter) (watcher.AWS, error) {
		var shifts *watcherec2.ShiftConfig
		if b.settings.EnableZonalShift {
			shifts = watcherec2.ShiftClients(sdk)
			shifts.Known = e.ZonalShifts
		}
		poller, err := watcherec2.New(watcherec2.Config{
			EC2: cloud, Pricing: pricing, Region: sdk.Region, Cluster: b.settings.ClusterName, Classes: informers.NodeClasses, Shifts: shifts,
			Options: watcherec2.Options{VMMemoryOverheadPercent: b.settings.VMMemoryOverheadPercent,
				ReservedENIs: b.settings.ReservedENIs, IsolatedVPC: b.settings.IsolatedVPC},
			Clock: b.clock.Now, Logger: logger, Registerer: b.registry,
		}, e)
		if err != nil || b.settings.InterruptionQueue == "" || b.settings.ModeOf(ledger.ServiceLifecycle) != ledger.ModeActive {
			return poller, err
		}
		return awsHalf{poller, b.queueReader(sdk, e, logger)}, nil
	}, nil
}

// awsHalf polls EC2 and reads the interruption queue.
type awsHalf struct {
	*watcherec2.Poller
	queue *queue.Reader
}

func (h awsHalf) Run(ctx context.Context) error {
	g, ctx := errgroup.WithContext(ctx)
	g.Go(func() error { return h.Poller.Run(ctx) })
	g.Go(func() error { return h.queue.Run(ctx) })
	return g.Wait()
}

// queueTimeout is longer than SQS waits for messages.
const queueTimeout = 30 * time.Second

// queueReader reads messages while this installation may act: they are for who drains the nodes. Its calls
// wait, and so say nothing about the time.
func (b *builder) queueReader(sdk awssdk.Config, e watcher.Emitter, logger zerolog.Logger) *queue.Reader {
	client := sqs.NewFromConfig(sdk, func(o *sqs.Options) { o.HTTPClient = awshttp.NewBuildableClient().WithTimeout(queueTimeout) })
	return queue.New(queue.Config{
		SQS: client, Name: b.settings.InterruptionQueue, MayAct: b.leaseIsOurs, Events: b.events, Object: b.leaseReference(),
		Clock: b.clock.Now, Logger: logger, Registerer: b.registry,
	}, e)
}

// leaseIsOurs reports that the kube Lease is held by this installation. A watcher by itself holds none, and
// asks.
func (b *builder) leaseIsOurs(ctx context.Context) bool {
	if b.lease != nil {
		return b.lease.Held()
	}
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	o, err := b.kube.Core.CoordinationV1().Leases(b.settings.LeaseNamespace()).Get(ctx, b.settings.LeaderElectionName, metav1.GetOptions{})
	if unread := err != nil && !apierrors.IsNotFound(err); unread != b.leaseUnread {
		b.leaseUnread = unread
		if unread {
			b.logger.Warn().Err(err).Msg("the kube Lease cannot be read: no message of the interruption queue is received meanwhile")
		}
	}
	return err == nil && o.Spec.HolderIdentity != nil && *o.Spec.HolderIdentity == lease.Identity(b.log.ID())
}

func (b *builder) addLifecycle(ctx context.Context) error {
	aws, err := b.aws(ctx)
	if err != nil {
		return err
	}
	h, logger := b.host(ledger.ServiceLifecycle)
	b.speaker = h
	informers := b.watchCluster()
	launcher := launch.New(launch.Config{
		Cloud: aws.ec2, DryRun: aws.ec2, Cluster: aws.cluster.Get, Region: aws.ec2.Region(), Now: b.clock.Now, Registerer: b.registry,
		HasClass: func(name string) bool {
			return slices.ContainsFunc(informers.NodeClasses(), func(nc *awsv1.EC2NodeClass) bool { return nc.Name == name })
		},
	})
	authorize := launcher.Authorize
	if b.settings.DisableDryRun {
		authorize = nil
	}
	reconciler := nodeclass.New(nodeclass.Config{
		Hasher:    aws.hasher,
		Authorize: authorize, Cloud: aws.ec2, Cluster: b.settings.ClusterName, Region: aws.ec2.Region(), Version: aws.cluster.Version, CIDR: aws.cluster.CIDR,
		DeleteTemplates: launcher.DeleteTemplates, SubnetsSeen: launcher.SubnetsSeen, IsolatedVPC: b.settings.IsolatedVPC, Now: b.clock.Now,
	})
	s := lifecycle.New(h, lifecycle.Deps{
		Cluster: b.settings.ClusterName, Cache: informers, Kube: b.kube, EC2: aws.ec2, Launcher: launcher,
		Classes: reconciler, Reservations: aws.ec2, Templates: launcher, Profiles: reconciler, Boots: aws.ec2, Hasher: aws.hasher, Logger: logger, Registerer: b.registry,
	})
	steps := b.addSteps(h, s, logger, b.changes)
	steps.OnLead(aws.budgets.TookOver)
	keeper, err := b.keeper(ctx, h, logger)
	if err != nil {
		return err
	}
	steps.Beside(keeper.Run)
	if err := errors.Join(b.addSelfCheck(steps, logger), b.watchServers(b.bus, logger)); err != nil {
		return err
	}
	guard := retention.NewGuard(b.database, b.log, b.archive, b.settings.ClusterName, logger)
	b.parts.Background = append(b.parts.Background, guard.Run)
	b.parts.Ready = append(b.parts.Ready, process.Check{Name: "log-room", Probe: guard.Check})
	return nil
}

// keeper keeps the log, beside the lifecycle service.
func (b *builder) keeper(ctx context.Context, h *step.Host, logger zerolog.Logger) (*retention.Keeper, error) {
	cfg := retention.Config{
		Host: h, Log: b.log, Database: b.database, Cluster: b.settings.ClusterName, Logger: logger, Registerer: b.registry,
		Policy: retention.Policy{Every: b.settings.CheckpointRecords, Age: b.settings.LogRetention, Records: b.settings.LogRetentionRecords},
	}
	if b.archive != nil {
		cfg.Archive = b.archive
	}
	if path := b.settings.LogSigningKeyFile; path != "" {
		signer, err := heads.NewSigner(path, b.log.ID())
		if err != nil {
			return nil, fmt.Errorf("--log-signing-key-file: %w", err)
		}
		cfg.Signer = signer
	}
	if id := b.settings.LogSigningKMSKeyID; id != "" {
		sdk, err := b.sdk(ctx)
		if err != nil {
			return nil, err
		}
		cfg.Signer = heads.NewRemoteSigner(signing.NewKMS(sdk, id), b.log.ID())
	}
	return retention.New(cfg), nil
}
