package main

import (
	"os"
	"path/filepath"
	"slices"

	"github.com/spf13/cobra"
	"k8s.io/client-go/rest"

	"millwright/services/console"
	"millwright/services/internal/kube"
	"millwright/services/internal/process"
	"millwright/services/version"
)

// newConsole is the sub-command of the console against external etcd and NATS.
func newConsole() *cobra.Command {
	return newCommand(&cobra.Command{Use: console.Name, Short: "Show people what is decided and why, and take their orders",
		Long: `Serve an API and pages over HTTPS: nodes, pods that wait, what was decided and why, commands that wait for approval.

Who asks proves it by a token of the cluster; what they may see and do is for the API server to say. It decides nothing,
and nothing waits for it. Every replica is active. It needs the etcd of the event log and the NATS of the
observation stream.`}, []string{console.Name}, func(cmd *cobra.Command, s *process.Settings) { s.BindArchive(cmd.Flags()) })
}

// hasConsole: the process of all services, and that of the console alone.
func hasConsole(services []string) bool {
	return slices.Contains(services, console.Name) || slices.Equal(services, allServices)
}

// consoleQPS bounds the requests of the console to the API server, by a client of its own: people must not
// slow down what decides.
const consoleQPS = 50

// addConsole adds the console. In a process with other services it is none of their readiness.
func (b *builder) addConsole(alone bool) error {
	if b.console.Address == "" {
		return nil
	}
	config := rest.CopyConfig(b.config)
	config.QPS, config.Burst, config.RateLimiter = consoleQPS, 2*consoleQPS, nil
	client, err := kube.New(config)
	if err != nil {
		return err
	}
	dir, past := "", filepath.Join(os.TempDir(), "millwright-console")
	if b.settings.DataDir != "" {
		dir = filepath.Join(b.settings.DataDir, console.Name)
		past = filepath.Join(dir, "past")
	}
	c := console.New(console.Config{
		Settings: *b.console, Cluster: b.settings.ClusterName, Version: version.Version, Dir: dir, PastDir: past, Core: client.Core, Log: b.log, Stream: b.stream,
		Versions: b.state.Versions, Leaders: b.elector.Leaders, Now: b.clock.Now,
		Logger: b.logger.With().Str("service", console.Name).Logger(), Registerer: b.registry,
	})
	b.parts.Background = append(b.parts.Background, c.Run)
	if alone {
		if err := process.LowerPriority(); err != nil { // who decides on this machine goes first
			b.logger.Warn().Err(err).Msg("the console has the priority of what decides")
		}
		b.parts.Ready = append(b.parts.Ready, process.Check{Name: console.Name, Probe: c.Ready})
	}
	return nil
}
