package main

import (
	"os/exec"
	"runtime"
	"syscall"
)

// childAttributes make the kernel end a child when this process is gone, however it ended. A process group
// of its own keeps a Ctrl-C in the terminal from reaching the children before they are stopped in order.
func childAttributes() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL, Setpgid: true}
}

// startLocked starts cmd on a thread that lives as long as the child does, since Pdeathsig fires when
// the thread that started the child ends.
func startLocked(cmd *exec.Cmd) (<-chan error, error) {
	started, ended := make(chan error, 1), make(chan error, 1)
	go func() {
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		err := cmd.Start()
		started <- err
		if err == nil {
			ended <- cmd.Wait()
		}
	}()
	return ended, <-started
}
