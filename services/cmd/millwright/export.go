package main

import (
	"context"
	"errors"
	"os"
	"slices"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/rs/zerolog"
	"github.com/spf13/cobra"

	"millwright/services/export"
	"millwright/services/internal/process"
	"millwright/services/version"
)

// newExport is the sub-command of the export. It needs neither stream nor API server.
func newExport() *cobra.Command {
	s, x := &process.Settings{}, &export.Settings{}
	cmd := &cobra.Command{Use: export.Name, Short: "Hand what is recorded to others: CloudEvents, messages, traces", Args: cobra.NoArgs,
		Long: `Send what the log records to others: as CloudEvents over HTTP, as messages of a template of yours to a webhook, and as
OpenTelemetry traces. Every record is delivered at least once; how far each sink has come is kept beside the log.

One instance is active, the others stand by. It decides nothing and nothing waits for it. It needs the etcd of the event
log, and the archive of what left it: no NATS, no API server, no AWS but for an archive in a bucket.`}
	f := cmd.Flags()
	s.BindLog(f)
	s.BindArchive(f)
	x.Bind(f)
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		if err := process.FromEnvironment(f, os.LookupEnv); err != nil {
			return err
		}
		if !x.Enabled() {
			return errors.New("nothing to export to: name --export-cloudevents-url, --export-webhook-url-file or --export-traces")
		}
		if err := errors.Join(s.ValidateLog(), x.Validate()); err != nil {
			return err
		}
		return runExport(cmd.Context(), s, x)
	}
	return cmd
}

func runExport(ctx context.Context, s *process.Settings, x *export.Settings) error {
	logger, err := process.NewLogger(os.Stdout, s.LogLevel)
	if err != nil {
		return err
	}
	process.QuietLibraries(logger)
	registry := prometheus.NewRegistry()
	err = process.Run(ctx, process.Config{
		Settings: *s, Version: version.Version, Logger: logger, Registry: registry, Kube: reviewing(s, registry),
		Build: func(ctx context.Context) (*process.Parts, error) { return buildExport(ctx, s, x, registry, logger) },
	})
	logEnd(logger, err)
	return err
}

// buildExport connects to log and archive alone.
func buildExport(ctx context.Context, s *process.Settings, x *export.Settings, r prometheus.Registerer, logger zerolog.Logger) (_ *process.Parts, err error) {
	b := &builder{settings: s, export: x, logger: logger, metrics: r}
	defer func() {
		if err != nil {
			err = errors.Join(err, b.closers.close())
		}
	}()
	log, elector, err := openLog(ctx, s, &b.closers, logger)
	if err != nil {
		return nil, err
	}
	b.log, b.database, b.elector, b.parts.Elector = log, log, elector, elector
	if err := b.openArchive(ctx); err != nil {
		return nil, err
	}
	if err := b.addExport().Open(); err != nil {
		return nil, err
	}
	b.parts.Close = b.closers.close
	return &b.parts, nil
}

// exports: the process of all services does, where there is a sink.
func exports(services []string) bool { return slices.Equal(services, allServices) }

// addExport adds the export. In a process with other services what is wrong with its files is its own affair.
func (b *builder) addExport() *export.Exporter {
	e := export.New(export.Config{
		Settings: *b.export, Cluster: b.settings.ClusterName, Version: version.Version, Log: b.log, Live: b.database, Cursors: b.database,
		Now: b.now(), Logger: b.logger.With().Str("service", export.Name).Logger(), Registerer: b.metrics,
	})
	b.parts.Units = append(b.parts.Units, process.Unit{Name: export.Name, Deposable: true, Follows: true, Lead: e.Lead})
	return e
}

// now is the clock of the process, which has witnesses where the API server is asked.
func (b *builder) now() func() time.Time {
	if b.clock != nil {
		return b.clock.Now
	}
	return time.Now
}
