package main

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"millwright/tools/child"
)

// TestMain runs millctl itself in a process that a test started for that.
func TestMain(m *testing.M) {
	if os.Getenv("MILLCTL_TEST_RUN") != "" {
		os.Exit(run(append([]string{"millctl"}, os.Args[1:]...)))
	}
	os.Exit(m.Run())
}

// Ctrl-C ends what waits for standard input, or plans for long, although neither can be broken off.
func TestCtrlCEndsACommandThatHeedsNothing(t *testing.T) {
	catalog := filepath.Join(t.TempDir(), "catalog.json")
	if err := os.WriteFile(catalog, []byte(`{"instanceTypes": []}`), 0o600); err != nil {
		t.Fatal(err)
	}
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer w.Close()
	cmd := exec.Command(os.Args[0], "plan", "--offline", "-f", "-", "--catalog", catalog)
	cmd.Env, cmd.Stdin, cmd.Stderr = append(os.Environ(), "MILLCTL_TEST_RUN=1"), r, os.Stderr
	ended, err := child.Start(cmd)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := w.Write([]byte("apiVersion: v1\n")); err != nil {
		t.Fatal(err)
	}
	time.Sleep(time.Second) // it reads
	if err := cmd.Process.Signal(syscall.SIGINT); err != nil {
		t.Fatal(err)
	}
	select {
	case err := <-ended:
		if exit := (*exec.ExitError)(nil); !errors.As(err, &exit) || exit.ExitCode() != 1 {
			t.Errorf("it ended with %v", err)
		}
	case <-time.After(30 * time.Second):
		_ = cmd.Process.Kill()
		t.Error("it goes on")
	}
}
