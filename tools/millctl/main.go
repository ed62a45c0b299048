// Command millctl stops and resumes Millwright, reads what it decided, did and why, plans it again, and
// verifies the record.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"github.com/spf13/cobra"

	"millwright/services/version"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	err := command().ExecuteContext(ctx)
	var status exitStatus
	switch {
	case errors.As(err, &status):
		os.Exit(int(status))
	case err != nil:
		fmt.Fprintln(os.Stderr, "millctl:", err)
		os.Exit(1)
	}
}

// exitStatus ends the process with a status and no message: the command has already printed it.
type exitStatus int

func (s exitStatus) Error() string { return fmt.Sprintf("exit status %d", int(s)) }

func command() *cobra.Command {
	t := &target{}
	root := &cobra.Command{
		Use:   "millctl",
		Short: "Stop, explain, replay and verify Millwright",
		Long: `millctl reads the event log (what was decided, done, and why) and the observation stream (what was seen).

Where they are: --data-dir for ` + "`millwright all`" + `, running or not; --etcd-endpoints and --nats-url for services
with an external etcd and NATS. Environment: CLUSTER_NAME, DATA_DIR, ETCD_ENDPOINTS, NATS_URL.`,
		Version: version.Version, SilenceUsage: true, SilenceErrors: true,
	}
	t.flags(root.PersistentFlags())
	root.AddCommand(statusCommand(t), stopCommand(t), resumeCommand(t), logCommand(t), whyCommand(t), replayCommand(t), verifyCommand(t), healthCommand(t), archiveCommand(t), planCommand(t))
	root.AddCommand(commandsCommand(t), approveCommand(t), rejectCommand(t), rolloutsCommand(t))
	root.AddCommand(convertCommand(), migrateCommand(), userDataCommand(), catalogCommand(), awsCommand(), preflightCommand(t))
	return root
}
