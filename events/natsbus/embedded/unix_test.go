package embedded_test

import (
	"os"
	"path/filepath"
	"testing"

	"millwright/events/natsbus"
	"millwright/events/natsbus/embedded"
)

func TestOtherProcessesConnectThroughTheSocket(t *testing.T) {
	dir := t.TempDir()
	server, err := embedded.Start(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer server.Stop(t.Context())
	listener, err := server.ServeUnix(dir)
	if err != nil {
		t.Fatal(err)
	}
	info, err := os.Stat(filepath.Join(dir, "nats.sock"))
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("socket is %v (%v), want mode 0600", info.Mode(), err)
	}
	cfg := natsbus.Config{Server: embedded.Dir(dir), Cluster: "c", LogID: "0123456789abcdef0123456789abcdef"}
	stream, err := natsbus.Open(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	defer stream.Close()
	if err := stream.Publish(t.Context(), []byte("hello")); err != nil {
		t.Fatal(err)
	}
	if err := stream.Flush(t.Context()); err != nil {
		t.Fatal(err)
	}
	state, err := stream.State(t.Context())
	if err != nil || state.Last != 1 {
		t.Errorf("state %+v (%v), want one message", state, err)
	}
	if err := listener.Close(); err != nil {
		t.Errorf("close: %v", err)
	}
	if _, err := embedded.Dir(dir).InProcessConn(); err == nil {
		t.Error("the socket still answers after Close")
	}
}
