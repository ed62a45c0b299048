package main

import (
	"context"
	"encoding/base64"
	"fmt"
	"os"

	awssdk "github.com/aws/aws-sdk-go-v2/aws"
	"github.com/rs/zerolog"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

	"millwright/planner/ledger"
	"millwright/services/internal/clock"
	"millwright/services/internal/ec2"
	"millwright/services/internal/host/step"
	"millwright/services/internal/kube"
	"millwright/services/internal/process"
	"millwright/services/internal/retention"
	"millwright/services/lifecycle"
	"millwright/services/lifecycle/launch"
	"millwright/services/lifecycle/nodeclass"
	"millwright/services/version"
	"millwright/services/watcher"
	watcherec2 "millwright/services/watcher/ec2"
)

// cloud is what the services of one process share of AWS.
type cloud struct {
	ec2     *ec2.Client
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
	client, err := ec2.New(ctx, ec2.Config{Cluster: b.settings.ClusterName, Version: version.Version, AWS: &sdk, Registerer: b.registry})
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
	b.cloud = &cloud{ec2: client, hasher: nodeclass.NewHasher(b.settings.ClusterCABundle, own), cluster: launch.NewClusterSource(launch.ClusterConfig{
		Given:    launch.Cluster{Name: b.settings.ClusterName, Endpoint: b.settings.ClusterEndpoint, CABundle: ca},
		Describe: client.DescribeCluster, DNS: b.clusterDNS, Version: b.kubernetesVersion, Now: b.clock.Now,
	})}
	return b.cloud, nil
}

// sdk is the configuration of the AWS SDK, whose answers bear witness to the time.
func (b *builder) sdk(ctx context.Context) (awssdk.Config, error) {
	sdk, err := ec2.LoadConfig(ctx, version.Version)
	if err == nil {
		sdk.HTTPClient = b.clock.Client(clock.AWS, sdk.HTTPClient)
	}
	return sdk, err
}

// caBundle is the flag's, else what this process trusts the API server by.
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

// awsWatcher returns what builds the half of the watcher that polls AWS.
func (b *builder) awsWatcher(ctx context.Context, logger zerolog.Logger) (func(watcher.Emitter) (watcher.AWS, error), error) {
	sdk, err := b.sdk(ctx)
	if err != nil {
		return nil, err
	}
	cloud, pricing := watcherec2.Clients(sdk)
	informers := b.watchCluster()
	return func(e watcher.Emitter) (watcher.AWS, error) {
		return watcherec2.New(watcherec2.Config{
			EC2: cloud, Pricing: pricing, Region: sdk.Region, Cluster: b.settings.ClusterName, Classes: informers.NodeClasses,
			Options: watcherec2.Options{VMMemoryOverheadPercent: b.settings.VMMemoryOverheadPercent,
				ReservedENIs: b.settings.ReservedENIs, IsolatedVPC: b.settings.IsolatedVPC},
			Clock: b.clock.Now, Logger: logger, Registerer: b.registry,
		}, e)
	}, nil
}

func (b *builder) addLifecycle(ctx context.Context) error {
	aws, err := b.aws(ctx)
	if err != nil {
		return err
	}
	h, logger := b.host(ledger.ServiceLifecycle)
	b.speaker = h
	launcher := launch.New(launch.Config{Cloud: aws.ec2, DryRun: aws.ec2, Cluster: aws.cluster.Get, Region: aws.ec2.Region(), Now: b.clock.Now})
	authorize := launcher.Authorize
	if b.settings.DisableDryRun {
		authorize = nil
	}
	reconciler := nodeclass.New(nodeclass.Config{
		Hasher:    aws.hasher,
		Authorize: authorize, Cloud: aws.ec2, Cluster: b.settings.ClusterName, Region: aws.ec2.Region(), Version: aws.cluster.Version, CIDR: aws.cluster.CIDR,
		DeleteTemplates: launcher.DeleteTemplates, SubnetsSeen: launcher.SubnetsSeen, IsolatedVPC: b.settings.IsolatedVPC, Now: b.clock.Now,
	})
	informers := b.watchCluster()
	s := lifecycle.New(h, lifecycle.Deps{
		Cluster: b.settings.ClusterName, Cache: informers, Kube: b.kube, EC2: aws.ec2, Launcher: launcher,
		Classes: reconciler, Templates: launcher, Profiles: reconciler, Hasher: aws.hasher, Logger: logger, Registerer: b.registry,
	})
	steps := b.addSteps(h, s, logger, b.changes)
	steps.Beside(b.keeper(h, logger).Run)
	guard := retention.NewGuard(b.database, b.log, b.archive, b.settings.ClusterName, logger)
	b.parts.Background = append(b.parts.Background, guard.Run)
	b.parts.Ready = append(b.parts.Ready, process.Check{Name: "log-room", Probe: guard.Check})
	return nil
}

// keeper keeps the log, beside the lifecycle service.
func (b *builder) keeper(h *step.Host, logger zerolog.Logger) *retention.Keeper {
	cfg := retention.Config{
		Host: h, Log: b.log, Database: b.database, Cluster: b.settings.ClusterName, Logger: logger, Registerer: b.registry,
		Policy: retention.Policy{Every: b.settings.CheckpointRecords, Age: b.settings.LogRetention, Records: b.settings.LogRetentionRecords},
	}
	if b.archive != nil {
		cfg.Archive = b.archive
	}
	return retention.New(cfg)
}
