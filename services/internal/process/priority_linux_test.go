package process

import (
	"os"
	"os/exec"
	"strconv"
	"syscall"
	"testing"
)

// TestLowerPriority runs in a process of its own, whose threads stay as they are.
func TestLowerPriority(t *testing.T) {
	if os.Getenv("LOWER_PRIORITY") == "" {
		cmd := exec.Command(os.Args[0], "-test.run=^TestLowerPriority$")
		cmd.Env = append(os.Environ(), "LOWER_PRIORITY=1")
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
		return
	}
	if err := LowerPriority(); err != nil {
		t.Fatal(err)
	}
	tasks, err := os.ReadDir("/proc/self/task")
	if err != nil || len(tasks) < 2 {
		t.Fatalf("%d threads, %v", len(tasks), err)
	}
	for _, task := range tasks {
		id, err := strconv.Atoi(task.Name())
		if err != nil {
			t.Fatal(err)
		}
		if got, err := syscall.Getpriority(syscall.PRIO_PROCESS, id); err != nil || niceZero-got < lowPriority {
			t.Errorf("thread %d has nice %d, %v", id, niceZero-got, err)
		}
	}
}
