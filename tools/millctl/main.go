// Command millctl stops and resumes Millwright, reads what it decided, did and why, plans it again, and
// verifies the record. With the name kubectl-millwright it is a plugin of kubectl.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/spf13/cobra"

	"millwright/services/version"
	"millwright/tools/millctl/arguments"
	"millwright/tools/millctl/remote"
	"millwright/tools/millctl/screen"
)

// Statuses that the process ends with. Those of single commands are with them.
const (
	statusFailed      = exitStatus(1)
	statusDenied      = exitStatus(3)
	statusUnreachable = exitStatus(4)
)

func main() {
	os.Exit(run(os.Args))
}

// run is the process without its end. The first argument is the name it was started by.
func run(args []string) int {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	defer context.AfterFunc(ctx, func() { screen.Interrupted(stop) })()
	name := strings.TrimSuffix(filepath.Base(args[0]), ".exe")
	root := command()
	rest := args[1:]
	switch name {
	case "kubectl_complete-millwright": // kubectl asks this for completions
		rest = append([]string{cobra.ShellCompRequestCmd}, rest...)
		fallthrough
	case "kubectl-millwright":
		name = "kubectl millwright"
		root.Annotations = map[string]string{cobra.CommandDisplayNameAnnotation: name}
	default:
		name = "millctl"
	}
	root.SetArgs(rest)
	err := arguments.Misspelt(root, rest)
	if err == nil {
		err = root.ExecuteContext(ctx)
	}
	var status exitStatus
	if err != nil && !errors.As(err, &status) {
		fmt.Fprintf(os.Stderr, "%s: %v\n", name, err)
	}
	return int(statusOf(err))
}

// statusOf is what the process ends with after an error.
func statusOf(err error) exitStatus {
	var status exitStatus
	switch {
	case err == nil:
		return 0
	case errors.As(err, &status):
		return status
	case remote.Denied(err):
		return statusDenied
	case errors.Is(err, remote.ErrUnreachable):
		return statusUnreachable
	}
	return statusFailed
}

// exitStatus ends the process with a status and no message: the command has already printed it.
type exitStatus int

func (s exitStatus) Error() string { return fmt.Sprintf("exit status %d", int(s)) }

func command() *cobra.Command {
	t := &target{}
	root := &cobra.Command{
		Use:   "millctl",
		Short: "Stop, explain, replay and verify Millwright",
		Long: `millctl asks the console of the cluster that the kubeconfig names, as kubectl would (--kubeconfig, --context): why, log, status, commands,
rollouts, health, replay, verify, bundle, shadow report, plan --server, approve, reject, stop and resume need no more. It goes there through the API server, and with your rights (docs/console.md).

Or it reads the event log (what was decided, done, and why) and the observation stream (what was seen) themselves, which all
commands can: --data-dir for ` + "`millwright all`" + `, running or not; --etcd-endpoints and --nats-url for services with an external etcd
and NATS. Environment: CLUSTER_NAME, DATA_DIR, ETCD_ENDPOINTS, NATS_URL.

Exit status: 0 if it is done, 1 if it failed or there is nothing on record, 2 as some commands say, 3 if you may not, 4 if the console
cannot be reached.`,
		Version: version.Version, SilenceUsage: true, SilenceErrors: true,
	}
	t.flags(root.PersistentFlags())
	root.AddCommand(statusCommand(t), stopCommand(t), resumeCommand(t), logCommand(t), whyCommand(t), replayCommand(t), bundleCommand(t), verifyCommand(t), healthCommand(t), archiveCommand(t), planCommand(t), shadowCommand(t))
	root.AddCommand(commandsCommand(t), approveCommand(t), rejectCommand(t), rolloutsCommand(t))
	root.AddCommand(convertCommand(), migrateCommand(t), userDataCommand(), catalogCommand(), awsCommand(t), preflightCommand(t))
	t.completeFlags(root)
	return root
}
