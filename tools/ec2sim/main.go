// Command ec2sim is a simulated AWS account for node autoscalers: the unmodified AWS SDK talks to it through
// AWS_ENDPOINT_URL, and its instances register as Nodes of a cluster in which KWOK acts as the kubelets.
package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/rs/zerolog"
	"golang.org/x/sync/errgroup"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"millwright/tools/ec2sim/boot"
	"millwright/tools/ec2sim/sim"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := command().ExecuteContext(ctx); err != nil {
		fmt.Fprintln(os.Stderr, "ec2sim:", err)
		os.Exit(1)
	}
}

// run serves until the context ends.
func run(ctx context.Context, o *options) error {
	log := o.logger()
	config, err := o.kubeConfig(ctx, log)
	if err != nil {
		return err
	}
	simConfig, err := o.simConfig(config, log)
	if err != nil {
		return err
	}
	server := sim.New(simConfig)
	if err := o.enforce(server); err != nil {
		return err
	}
	if o.dataDir != "" {
		if err := server.Persist(o.dataDir); err != nil {
			return err
		}
	}
	listener, err := net.Listen("tcp", o.listen)
	if err != nil {
		return fmt.Errorf("listen on %s: %w", o.listen, err)
	}
	url := "http://" + listener.Addr().String()
	if err := o.announce(url); err != nil {
		return errors.Join(err, listener.Close())
	}
	log.Info().Str("url", url).Str("cluster", o.cluster).Str("region", o.region).Str("kubernetes_version", o.version).
		Bool("boots_nodes", config != nil).Msg("simulated account is up")
	err = serve(ctx, listener, server, config, o, log)
	log.Info().Msg("simulated account is down")
	return errors.Join(err, server.Close())
}

// serve runs the HTTP server and the node runner; the runner ends first, then open requests.
func serve(ctx context.Context, listener net.Listener, server *sim.Server, config *rest.Config, o *options, log zerolog.Logger) error {
	group, ctx := errgroup.WithContext(ctx)
	h := &http.Server{Handler: server, ReadHeaderTimeout: 10 * time.Second, BaseContext: func(net.Listener) context.Context { return ctx }}
	group.Go(func() error {
		if err := h.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
			return fmt.Errorf("serve: %w", err)
		}
		return nil
	})
	if config != nil {
		runner, err := o.runner(server, config, log)
		if err != nil {
			return errors.Join(err, h.Close())
		}
		group.Go(func() error { return runner.Run(ctx) })
	}
	group.Go(func() error {
		<-ctx.Done()
		deadline, cancel := context.WithTimeout(context.Background(), 5*time.Second)
		defer cancel()
		if err := h.Shutdown(deadline); err != nil {
			return h.Close()
		}
		return nil
	})
	return group.Wait()
}

func (o *options) runner(server *sim.Server, config *rest.Config, log zerolog.Logger) (*boot.Runner, error) {
	config = rest.CopyConfig(config)
	config.QPS, config.Burst, config.UserAgent = 500, 1000, "ec2sim"
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return nil, fmt.Errorf("make kubernetes client: %w", err)
	}
	name, endpoint, ca := server.Cluster()
	return boot.New(boot.Config{
		Cloud: server, Kube: client, DeleteNodes: o.deleteNodes, MemoryOverhead: int64(o.memoryOverhead * 1e6), Log: log,
		Cluster: boot.Cluster{Name: name, Endpoint: endpoint, CA: ca, Version: o.version},
	}), nil
}
