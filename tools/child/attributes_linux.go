package child

import "syscall"

// complete has the kernel end a child when this process is gone, and keeps a Ctrl-C from reaching it
// directly.
func complete(a *syscall.SysProcAttr) { a.Pdeathsig, a.Setpgid = syscall.SIGKILL, true }
