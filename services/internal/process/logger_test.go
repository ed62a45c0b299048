package process

import (
	"bytes"
	"errors"
	"os"
	"strings"
	"testing"

	"github.com/rs/zerolog"
	"k8s.io/klog/v2"
)

func TestLibrariesLogOnceAndNotToStderr(t *testing.T) {
	var out bytes.Buffer
	stderr := captureStderr(t, func() {
		QuietLibraries(zerolog.New(&out))
		klog.ErrorS(errors.New("connection refused"), "Failed to watch")
		klog.InfoS("Synced")
		klog.Flush()
	})
	if stderr != "" {
		t.Errorf("stderr got %q", stderr)
	}
	for text, level := range map[string]string{"Failed to watch": "warn", "Synced": "debug"} {
		if n := strings.Count(out.String(), text); n != 1 {
			t.Errorf("%q was logged %d times:\n%s", text, n, out.String())
		}
		for line := range strings.Lines(out.String()) {
			if strings.Contains(line, text) && !strings.Contains(line, `"level":"`+level+`"`) {
				t.Errorf("want level %s: %s", level, line)
			}
		}
	}
}

// captureStderr returns what f writes to the standard error stream.
func captureStderr(t *testing.T, f func()) string {
	t.Helper()
	file, err := os.CreateTemp(t.TempDir(), "stderr")
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	before := os.Stderr
	os.Stderr = file
	defer func() { os.Stderr = before }()
	f()
	text, err := os.ReadFile(file.Name())
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}
