package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/rs/zerolog"
	"github.com/spf13/cobra"
	apiextclient "k8s.io/apiextensions-apiserver/pkg/client/clientset/clientset"
	"k8s.io/client-go/kubernetes"

	"millwright/services/internal/kube"
	"millwright/services/internal/process"
	"millwright/services/version"
	"millwright/services/webhook"
)

// namespaceFile tells a pod its namespace.
const namespaceFile = "/var/run/secrets/kubernetes.io/serviceaccount/namespace"

// newWebhook is the sub-command of the conversion webhook. It needs neither log nor stream.
func newWebhook() *cobra.Command {
	s, w := &process.Settings{}, &webhook.Settings{}
	cmd := &cobra.Command{Use: "webhook", Short: "Convert objects between v1beta1 and v1 for the API server", Args: cobra.NoArgs,
		Long: `Convert NodePools, NodeClaims and EC2NodeClasses between v1beta1 and v1 for the API server (ConversionReview over TLS).

It makes and renews its certificates itself, keeps them in a Secret, and writes their CA and its own address into those of
the CRDs that serve v1beta1 (deploy/crds/with-v1beta1). All replicas are active. It needs the API server alone: no etcd,
no NATS, no AWS. docs/upgrade.md says when it is needed, and until when.`}
	f := cmd.Flags()
	s.BindProcess(f)
	f.IntVar(&w.Port, "webhook-port", 8443, "port that reviews are answered on; 0 picks a free one")
	f.StringVar(&w.Service, "karpenter-service", "karpenter", "name of the Service the API server reaches the webhook through")
	f.StringVar(&w.Namespace, "system-namespace", podNamespace(), "namespace of that Service and of the Secret")
	f.Lookup("system-namespace").DefValue = "the pod's, else kube-system" // as help shows it
	f.StringVar(&w.Secret, "webhook-secret", "millwright-webhook-cert", "name of the Secret that keeps the certificates")
	f.StringVar(&w.URL, "webhook-url", "", "https URL the API server reaches the webhook at, instead of the Service; for a webhook outside the cluster")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		if err := process.FromEnvironment(f, os.LookupEnv); err != nil {
			return err
		}
		if err := errors.Join(s.ValidateProcess(), w.Validate()); err != nil {
			return err
		}
		return runWebhook(cmd.Context(), s, *w)
	}
	return cmd
}

func podNamespace() string {
	if data, err := os.ReadFile(namespaceFile); err == nil && len(data) > 0 {
		return strings.TrimSpace(string(data))
	}
	return "kube-system"
}

func runWebhook(ctx context.Context, s *process.Settings, w webhook.Settings) error {
	logger, err := process.NewLogger(os.Stdout, s.LogLevel)
	if err != nil {
		return err
	}
	logger = logger.With().Str("service", "webhook").Logger()
	process.QuietLibraries(logger)
	registry := prometheus.NewRegistry()
	err = process.Run(ctx, process.Config{
		Settings: *s, Version: version.Version, Logger: logger, Registry: registry, Kube: reviewing(s, registry),
		Build: func(context.Context) (*process.Parts, error) { return buildWebhook(s, w, registry, logger) },
	})
	logEnd(logger, err)
	return err
}

func buildWebhook(s *process.Settings, w webhook.Settings, registry *prometheus.Registry, logger zerolog.Logger) (*process.Parts, error) {
	cfg, err := kubeConfig(s, registry)
	if err != nil {
		return nil, err
	}
	clock := witnessedClock(cfg, registry)
	client, err := kube.New(cfg)
	if err != nil {
		return nil, err
	}
	crds, err := apiextclient.NewForConfig(cfg)
	if err != nil {
		return nil, fmt.Errorf("build client for CRDs: %w", err)
	}
	hook, err := webhook.New(webhook.Config{Settings: w, Core: client.Core, CRDs: crds, Pools: client.NodePools, Now: clock.Now, Reliable: clock.Check,
		Logger: logger, Registerer: registry})
	if err != nil {
		return nil, err
	}
	return &process.Parts{
		Background: []func(context.Context) error{hook.Run, keepClock(clock, func() kubernetes.Interface { return client.Core }, logger)},
		Ready:      []process.Check{{Name: "webhook", Probe: hook.Ready}},
	}, nil
}
