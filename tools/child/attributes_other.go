//go:build !linux

package child

import "syscall"

func complete(a *syscall.SysProcAttr) { a.Setpgid = true }
