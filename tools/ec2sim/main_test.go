package main

import (
	"context"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

func TestTheCommandServesUntilItIsStopped(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "url")
	cmd := command()
	cmd.SetArgs([]string{"--endpoint-file", file, "--data-dir", filepath.Join(dir, "data"), "--zones", "us-west-2a,b", "--log-level", "error"})
	ctx, stop := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- cmd.ExecuteContext(ctx) }()
	url := awaitURL(t, file, ended)
	if got := fetch(t, url+"/healthz"); got != "ok\n" {
		t.Errorf("health %q", got)
	}
	if got := fetch(t, url+"/_control/defaults"); !strings.Contains(got, `"us-west-2b"`) || strings.Contains(got, `"us-west-2c"`) {
		t.Errorf("defaults %s", got)
	}
	stop()
	if err := <-ended; err != nil {
		t.Errorf("stopped with %v", err)
	}
}

func awaitURL(t *testing.T, file string, ended <-chan error) string {
	t.Helper()
	for deadline := time.Now().Add(20 * time.Second); time.Now().Before(deadline); time.Sleep(10 * time.Millisecond) {
		select {
		case err := <-ended:
			t.Fatalf("ended early: %v", err)
		default:
		}
		if data, err := os.ReadFile(file); err == nil {
			return strings.TrimSpace(string(data))
		}
	}
	t.Fatal("the endpoint file never came")
	return ""
}

func fetch(t *testing.T, url string) string {
	t.Helper()
	resp, err := http.Get(url)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	data, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

func TestEveryFlagIsExplained(t *testing.T) {
	help := command().UsageString()
	for _, flag := range []string{"--listen", "--endpoint-file", "--kubeconfig", "--cluster-name", "--region", "--zones", "--data-dir", "--seed",
		"--kubernetes-version", "--pending-delay", "--boot-delay", "--delete-nodes-of-terminated-instances"} {
		if !strings.Contains(help, flag+" ") {
			t.Errorf("no help for %s", flag)
		}
	}
}
