// Package child starts processes that do not outlive this one, not even if it is killed (on Linux; elsewhere
// they may).
package child

import (
	"os/exec"
	"runtime"
	"syscall"
)

// Start runs the command. When it has ended, the channel returned gets how, once, and is closed.
func Start(cmd *exec.Cmd) (<-chan error, error) {
	if cmd.SysProcAttr == nil {
		cmd.SysProcAttr = &syscall.SysProcAttr{}
	}
	complete(cmd.SysProcAttr)
	started, ended := make(chan error, 1), make(chan error, 1)
	go func() {
		// The kernel ends the child when the thread that started it ends.
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		defer close(ended)
		err := cmd.Start()
		started <- err
		if err == nil {
			ended <- cmd.Wait()
		}
	}()
	return ended, <-started
}
