package remote

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/portforward"
	"k8s.io/client-go/transport/spdy"
	"k8s.io/streaming/pkg/httpstream"
)

const (
	// connectionsMax bounds the connections through one tunnel.
	connectionsMax = 8
	// failureMax bounds what is read of why the other end failed.
	failureMax = 4 << 10
)

// errTunnel: the way to the pod failed, not the console.
var errTunnel = errors.New("forward to it through the API server")

// errForbidden: the API server does not let this user through.
var errForbidden = errors.New("you need the rights to get and create pods/portforward there")

// tunnel leads to a port of a pod through API server and kubelet, as kubectl port-forward does, but opens no
// port here.
type tunnel struct {
	conn httpstream.Connection
	to   place
	next atomic.Int64

	mu sync.Mutex
	// failed is what the other end said last of a connection that it could not make.
	failed error
}

// dig opens a tunnel: through a WebSocket, or SPDY if the API server or a proxy before it does not take that.
func (c *Cluster) dig(ctx context.Context, to place) (*tunnel, error) {
	target := c.Core.CoreV1().RESTClient().Post().Resource("pods").Namespace(to.namespace).Name(to.pod).SubResource("portforward").URL()
	config := rest.CopyConfig(c.Config)
	plain, upgrader, err := spdy.RoundTripperFor(config)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", errTunnel, err)
	}
	websocket, err := portforward.NewSPDYOverWebsocketDialerForStreaming(target, config)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", errTunnel, err)
	}
	dialer := portforward.NewFallbackDialerForStreaming(websocket, spdy.NewDialerForStreaming(upgrader, &http.Client{Transport: plain}, http.MethodPost, target), func(err error) bool {
		return httpstream.IsUpgradeFailure(err) || httpstream.IsHTTPSProxyError(err)
	})
	// The dialers know no deadline: what comes too late is closed by who waits for it.
	type answer struct {
		conn httpstream.Connection
		err  error
	}
	answers := make(chan answer)
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	go func() {
		conn, _, err := dialer.Dial(portforward.PortForwardProtocolV1Name)
		select {
		case answers <- answer{conn, err}:
		case <-ctx.Done():
			if err == nil {
				_ = conn.Close()
			}
		}
	}()
	select {
	case a := <-answers:
		if a.err != nil {
			return nil, fmt.Errorf("%w: %w", errTunnel, explained(a.err))
		}
		return &tunnel{conn: a.conn, to: to}, nil
	case <-ctx.Done():
		return nil, fmt.Errorf("%w: %w", errTunnel, ctx.Err())
	}
}

// explained adds what to do about an error that is known.
func explained(err error) error {
	if strings.Contains(err.Error(), "forbidden") || strings.Contains(err.Error(), "Forbidden") {
		return fmt.Errorf("%w: %w; Role millwright-console-user has the rights for it", errForbidden, err)
	}
	return err
}

// Close ends the tunnel and what goes through it.
func (t *tunnel) Close() { _ = t.conn.Close() }

// failure is why the other end could not connect, as far as it has said so.
func (t *tunnel) failure() error {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.failed
}

// dial opens a connection through the tunnel; where it leads is given.
func (t *tunnel) dial(context.Context, string, string) (net.Conn, error) {
	headers := http.Header{}
	headers.Set(corev1.StreamType, corev1.StreamTypeError)
	headers.Set(corev1.PortHeader, strconv.Itoa(int(t.to.port)))
	headers.Set(corev1.PortForwardRequestIDHeader, strconv.FormatInt(t.next.Add(1), 10))
	failures, err := t.conn.CreateStream(headers)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", errTunnel, err)
	}
	_ = failures.Close() // nothing is written to it
	headers.Set(corev1.StreamType, corev1.StreamTypeData)
	data, err := t.conn.CreateStream(headers)
	if err != nil {
		t.conn.RemoveStreams(failures)
		return nil, fmt.Errorf("%w: %w", errTunnel, err)
	}
	s := &stream{Stream: data, tunnel: t, failures: failures}
	go s.listen()
	return s, nil
}

// stream is a connection through a tunnel.
type stream struct {
	httpstream.Stream
	tunnel   *tunnel
	failures httpstream.Stream
	ended    sync.Once
}

// listen waits for the other end to say what failed, or for its end.
func (s *stream) listen() {
	text, err := io.ReadAll(io.LimitReader(s.failures, failureMax))
	if err == nil && len(text) > 0 {
		s.tunnel.mu.Lock()
		s.tunnel.failed = fmt.Errorf("%w: %s", errTunnel, strings.TrimSpace(string(text)))
		s.tunnel.mu.Unlock()
		_ = s.Close()
	}
}

// Close ends both directions.
func (s *stream) Close() error {
	s.ended.Do(func() {
		_ = s.Reset()
		_ = s.failures.Reset()
		s.tunnel.conn.RemoveStreams(s.Stream, s.failures)
	})
	return nil
}

// LocalAddr names this end, for messages.
func (s *stream) LocalAddr() net.Addr { return address("this machine") }

// RemoteAddr is the port of the pod.
func (s *stream) RemoteAddr() net.Addr {
	return address(fmt.Sprintf("port %d of pod %s/%s", s.tunnel.to.port, s.tunnel.to.namespace, s.tunnel.to.pod))
}

// SetDeadline and its like do nothing: deadlines are those of the requests, which close the connection when
// they have passed.
func (*stream) SetDeadline(time.Time) error      { return nil }
func (*stream) SetReadDeadline(time.Time) error  { return nil }
func (*stream) SetWriteDeadline(time.Time) error { return nil }

type address string

func (address) Network() string  { return "port-forward" }
func (a address) String() string { return string(a) }
