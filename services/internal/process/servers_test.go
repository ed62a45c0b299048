package process

import (
	"fmt"
	"net"
	"net/http"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/rs/zerolog"
)

// Who does not read the answer is not waited for for ever.
func TestWhoDoesNotReadIsLeft(t *testing.T) {
	left := make(chan error, 1)
	handler := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_, err := w.Write(make([]byte, 64<<20))
		left <- err
	})
	address := fmt.Sprintf("127.0.0.1:%d", freePort(t))
	v := &servers{logger: zerolog.Nop()}
	if err := v.serve(endpoint{what: "test", address: address, handler: handler, answerWithin: 200 * time.Millisecond}); err != nil {
		t.Fatal(err)
	}
	defer v.shutdown()
	conn, err := net.Dial("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	fmt.Fprint(conn, "GET / HTTP/1.1\r\nHost: test\r\n\r\n")
	select {
	case err := <-left:
		if err == nil {
			t.Error("the answer was sent whole")
		}
	case <-time.After(20 * time.Second):
		t.Error("it waits for ever")
	}
}

func TestConnectionsToHealthAndMetricsAreBounded(t *testing.T) {
	s := Settings{MetricsPort: freePort(t), HealthProbePort: freePort(t)}
	v, err := listen(s, prometheus.NewRegistry(), &checks{}, &checks{}, nil, zerolog.Nop())
	if err != nil {
		t.Fatal(err)
	}
	defer v.shutdown()
	for _, srv := range v.list {
		if srv.IdleTimeout <= 0 || srv.WriteTimeout <= 0 {
			t.Errorf("idle for %s, answer within %s", srv.IdleTimeout, srv.WriteTimeout)
		}
	}
	if len(v.list) != 2 {
		t.Errorf("%d servers", len(v.list))
	}
}
