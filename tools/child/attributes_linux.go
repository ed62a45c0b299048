package child

import "syscall"

// attributes end a child when this process is gone, and keep a Ctrl-C from reaching it directly.
func attributes() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL, Setpgid: true}
}
