package embedded_test

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"millwright/store/etcdlog/embedded"
)

// onFullDisk names the directory of a test that runs itself once more, as a process that etcd ends.
const onFullDisk = "MILLWRIGHT_TEST_FULL_DISK"

// TestAFullDiskIsTold: etcd ends the process when it cannot write to its database. The reason is in its log
// only if there is room, and goes to Options.Log in any case.
func TestAFullDiskIsTold(t *testing.T) {
	if dir := os.Getenv(onFullDisk); dir != "" {
		fillUp(t, dir)
		return
	}
	dir := t.TempDir()
	if err := syscall.Mount("tmpfs", dir, "tmpfs", 0, "size=150m,mode=0700"); err != nil {
		t.Skipf("a small file system cannot be mounted here: %v", err)
	}
	defer func() {
		if err := syscall.Unmount(dir, 0); err != nil {
			t.Error(err)
		}
	}()
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, os.Args[0], "-test.run=^TestAFullDiskIsTold$")
	cmd.Env = append(os.Environ(), onFullDisk+"="+dir)
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	err := cmd.Run()
	if err == nil || ctx.Err() != nil {
		t.Fatalf("etcd did not end the process: %v\n%s", err, out.String())
	}
	for line := range strings.Lines(out.String()) {
		if strings.HasPrefix(line, "told: ") && strings.Contains(line, "no space left on device") {
			return
		}
	}
	t.Errorf("nothing was told of the full disk:\n%s", out.String())
}

// fillUp writes until etcd ends the process.
func fillUp(t *testing.T, dir string) {
	s, err := embedded.Start(dir, embedded.Options{Log: func(level, message string, fields map[string]any) {
		fmt.Println("told:", level, message, fields)
	}})
	if err != nil {
		t.Fatal(err)
	}
	value := string(bytes.Repeat([]byte{'x'}, 1<<20))
	for i := 0; ; i++ {
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		_, err := s.Client.Put(ctx, fmt.Sprint(i), value)
		cancel()
		if err != nil {
			fmt.Println("put:", err)
			time.Sleep(100 * time.Millisecond)
		}
		if i == 1000 {
			return
		}
	}
}
