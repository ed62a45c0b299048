// Command certmanager runs cert-manager in one process: those of its controllers that issue and renew
// certificates by issuers of the kinds SelfSigned and CA, its webhook, which validates what is asked for, and
// the cainjector, by which the API server trusts the webhook. Its own commands are of modules that cannot be
// required, and what the webhook is made of is internal to cert-manager: hence the path of this module, as
// theirs below cert-manager's.
//
//	certmanager --kubeconfig FILE --webhook-port PORT
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/cert-manager/cert-manager/internal/apis/config/shared"
	config "github.com/cert-manager/cert-manager/internal/apis/config/webhook"
	"github.com/cert-manager/cert-manager/internal/webhook"
	certmanagerv1 "github.com/cert-manager/cert-manager/pkg/apis/certmanager/v1"
	"github.com/cert-manager/cert-manager/pkg/controller"
	"github.com/cert-manager/cert-manager/pkg/controller/cainjector"
	_ "github.com/cert-manager/cert-manager/pkg/controller/certificaterequests/approver"
	_ "github.com/cert-manager/cert-manager/pkg/controller/certificaterequests/ca"
	_ "github.com/cert-manager/cert-manager/pkg/controller/certificaterequests/selfsigned"
	_ "github.com/cert-manager/cert-manager/pkg/controller/certificates/issuing"
	_ "github.com/cert-manager/cert-manager/pkg/controller/certificates/keymanager"
	_ "github.com/cert-manager/cert-manager/pkg/controller/certificates/readiness"
	_ "github.com/cert-manager/cert-manager/pkg/controller/certificates/requestmanager"
	_ "github.com/cert-manager/cert-manager/pkg/controller/certificates/revisionmanager"
	_ "github.com/cert-manager/cert-manager/pkg/controller/certificates/trigger"
	_ "github.com/cert-manager/cert-manager/pkg/controller/issuers"
	_ "github.com/cert-manager/cert-manager/pkg/issuer/ca"
	_ "github.com/cert-manager/cert-manager/pkg/issuer/selfsigned"
	"github.com/go-logr/logr"
	"github.com/go-logr/logr/funcr"
	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/tools/clientcmd"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"
)

// namespace of cert-manager.
const namespace = "cert-manager"

func main() {
	flags := flag.NewFlagSet("certmanager", flag.ExitOnError) // controller-runtime has flags of its own in the global set
	kubeconfig := flags.String("kubeconfig", "", "the cluster")
	port := flags.Int("webhook-port", 0, "port at which the webhook serves")
	if err := flags.Parse(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "certmanager:", err)
		os.Exit(2)
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	ctrl.SetLogger(funcr.New(func(prefix, args string) { fmt.Fprintln(os.Stderr, prefix, args) }, funcr.Options{}))
	running, ctx := errgroup.WithContext(ctx)
	running.Go(func() error { return issue(ctx, *kubeconfig) })
	running.Go(func() error { return validate(ctx, *kubeconfig, int32(*port)) })
	running.Go(func() error { return inject(ctx, *kubeconfig) })
	if err := running.Wait(); err != nil && !errors.Is(err, context.Canceled) {
		fmt.Fprintln(os.Stderr, "certmanager:", err)
		os.Exit(1)
	}
}

// issue runs the controllers.
func issue(ctx context.Context, kubeconfig string) error {
	// Back-offs are cert-manager's defaults.
	factory, err := controller.NewContextFactory(ctx, controller.ContextOptions{Kubeconfig: kubeconfig, KubernetesAPIQPS: 20, KubernetesAPIBurst: 50,
		IssuerOptions:      controller.IssuerOptions{ClusterResourceNamespace: namespace},
		CertificateOptions: controller.CertificateOptions{CertificateRequestMinimumBackoffDuration: time.Hour, CertificateRequestMaximumBackoffDuration: 32 * time.Hour},
	})
	if err != nil {
		return err
	}
	var running errgroup.Group
	for name, construct := range controller.Known() {
		c, err := construct(factory)
		if err != nil {
			return fmt.Errorf("make controller %s: %w", name, err)
		}
		running.Go(func() error { return c.Run(1, ctx) })
	}
	root, err := factory.Build()
	if err != nil {
		return err
	}
	root.SharedInformerFactory.Start(ctx.Done())
	root.KubeSharedInformerFactory.Start(ctx.Done())
	return running.Wait()
}

// validate runs the webhook, with a certificate for localhost by a CA of its own in a Secret, as installed.
func validate(ctx context.Context, kubeconfig string, port int32) error {
	server, err := webhook.NewCertManagerWebhookServer(logr.Discard(), config.WebhookConfiguration{KubeConfig: kubeconfig, SecurePort: port, MetricsListenAddress: "0",
		TLSConfig: shared.TLSConfig{Dynamic: shared.DynamicServingConfig{SecretNamespace: namespace, SecretName: "cert-manager-webhook-ca", DNSNames: []string{"localhost"}, LeafDuration: 24 * time.Hour}}})
	if err != nil {
		return fmt.Errorf("make webhook: %w", err)
	}
	return server.Run(ctx)
}

// inject runs the cainjector, which writes the webhook's CA into the API server's configuration of webhooks.
func inject(ctx context.Context, kubeconfig string) error {
	cfg, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	if err != nil {
		return err
	}
	cfg.UserAgent = "cert-manager-cainjector" // the owner of the fields that it applies; without one nothing is taken
	scheme := runtime.NewScheme()
	if err := errors.Join(clientgoscheme.AddToScheme(scheme), certmanagerv1.AddToScheme(scheme)); err != nil {
		return err
	}
	manager, err := ctrl.NewManager(cfg, ctrl.Options{Scheme: scheme, Metrics: metricsserver.Options{BindAddress: "0"},
		Client: client.Options{Cache: &client.CacheOptions{DisableFor: []client.Object{&corev1.Secret{}}}}})
	if err != nil {
		return fmt.Errorf("make cainjector: %w", err)
	}
	kinds := map[string]bool{cainjector.ValidatingWebhookConfigurationName: true, cainjector.MutatingWebhookConfigurationName: true}
	if err := cainjector.RegisterAllInjectors(ctx, manager, cainjector.SetupOptions{EnabledReconcilersFor: kinds}); err != nil {
		return fmt.Errorf("make cainjector: %w", err)
	}
	return manager.Start(ctx)
}
