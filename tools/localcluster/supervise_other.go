//go:build !linux

package main

import (
	"os/exec"
	"syscall"
)

func childAttributes() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setpgid: true} }

func startLocked(cmd *exec.Cmd) (<-chan error, error) {
	ended := make(chan error, 1)
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	go func() { ended <- cmd.Wait() }()
	return ended, nil
}
