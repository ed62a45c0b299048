package main

import (
	"bytes"
	"context"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"millwright/services/console/api"
	"millwright/services/console/index"
)

// When the console says that its stream leaves records out, log --follow reads them by page.
func TestFollowingLeavesNothingOut(t *testing.T) {
	for _, name := range []string{"CLUSTER_NAME", "DATA_DIR", "ETCD_ENDPOINTS", "NATS_URL"} {
		t.Setenv(name, "")
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var mu sync.Mutex
	head, tails := uint64(2), 0
	mux := http.NewServeMux()
	mux.HandleFunc(api.Prefix+"/decisions", func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		defer mu.Unlock()
		page := api.Decisions{From: 1, Head: head}
		first := head
		if c := r.URL.Query().Get("cursor"); c != "" {
			_, _ = fmt.Sscan(c, &first)
			first--
		}
		for seq := first; seq > 0 && len(page.Items) < 2; seq-- {
			page.Items = append(page.Items, index.Row{Seq: seq, Text: "something"})
		}
		if last := page.Items[len(page.Items)-1].Seq; last > 1 {
			page.Next = fmt.Sprint(last)
		}
		_ = json.NewEncoder(w).Encode(page)
	})
	mux.HandleFunc(api.Prefix+api.TailPath, func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		defer mu.Unlock()
		w.Header().Set("Content-Type", "text/event-stream")
		tails++
		switch after := r.Header.Get("Last-Event-ID"); {
		case tails == 1 && after == "2":
			_, _ = fmt.Fprint(w, "id: 3\nevent: record\ndata: {\"seq\":3}\n\nevent: lost\ndata: too slow\n\n")
			head = 9
		case tails == 2 && after == "9":
			_, _ = fmt.Fprint(w, "id: 10\nevent: record\ndata: {\"seq\":10}\n\n")
		default:
			cancel()
		}
	})
	server := httptest.NewTLSServer(mux)
	defer server.Close()
	dir := t.TempDir()
	ca, kubeconfig := filepath.Join(dir, "ca.crt"), filepath.Join(dir, "kubeconfig")
	for file, text := range map[string]string{
		ca: string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw})),
		kubeconfig: "apiVersion: v1\nkind: Config\ncurrent-context: c\nclusters: [{name: c, cluster: {server: 'https://127.0.0.1:1'}}]\n" +
			"contexts: [{name: c, context: {cluster: c, user: u}}]\nusers: [{name: u, user: {token: viewer}}]\n",
	} {
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	var out bytes.Buffer
	cmd := command()
	cmd.SetOut(&out)
	cmd.SetArgs([]string{"log", "--follow", "-o", "name", "--kubeconfig", kubeconfig, "--console-url", server.URL, "--console-ca-file", ca})
	if err := cmd.ExecuteContext(ctx); err != nil {
		t.Fatal(err)
	}
	want := ""
	for seq := range 10 {
		want += fmt.Sprintf("record/%d\n", seq+1)
	}
	if d := cmp.Diff(strings.Fields(want), strings.Fields(out.String())); d != "" {
		t.Error(d)
	}
}
