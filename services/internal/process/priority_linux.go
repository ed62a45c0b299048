package process

import (
	"errors"
	"fmt"
	"os"
	"strconv"
	"syscall"
)

const (
	lowPriority = 10
	// niceZero is what the system call for a priority returns for nice 0; it returns 20 - nice.
	niceZero = 20
)

// LowerPriority lets other processes of the machine have the CPU first (nice 10), as long as they want it. On
// Linux each thread has a priority of its own, and one that begins has that of the thread that began it: they
// are looked at until none is left that is older than the change.
func LowerPriority() error {
	done := map[int]bool{}
	for before := -1; before != len(done); {
		before = len(done)
		tasks, err := os.ReadDir("/proc/self/task")
		if err != nil {
			return fmt.Errorf("list threads: %w", err)
		}
		for _, t := range tasks {
			id, err := strconv.Atoi(t.Name())
			if err != nil || done[id] {
				continue
			}
			done[id] = true
			if have, err := syscall.Getpriority(syscall.PRIO_PROCESS, id); err == nil && niceZero-have >= lowPriority {
				continue // whoever started the process wants it lower yet
			}
			if err := syscall.Setpriority(syscall.PRIO_PROCESS, id, lowPriority); err != nil && !errors.Is(err, syscall.ESRCH) {
				return fmt.Errorf("lower the priority of thread %d: %w", id, err)
			}
		}
	}
	return nil
}
