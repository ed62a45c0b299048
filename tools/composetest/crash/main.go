// Command crash kills a process of the host, from a container that shares the host's process ids (`docker run
// --pid=host`). It ends a container as a crash would: after `docker kill` the engine takes the end for
// intended, and the restart policy does nothing.
package main

import (
	"fmt"
	"os"
	"strconv"
	"syscall"
)

func main() {
	if err := crash(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "crash:", err)
		os.Exit(1)
	}
}

func crash(args []string) error {
	if len(args) != 1 {
		return fmt.Errorf("usage: crash PID")
	}
	pid, err := strconv.Atoi(args[0])
	if err != nil || pid <= 1 {
		return fmt.Errorf("%q is not the process id of a container", args[0])
	}
	if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
		return fmt.Errorf("kill process %d: %w", pid, err)
	}
	return nil
}
