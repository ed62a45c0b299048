package natsbus

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/url"
	"strings"
	"testing"
	"time"

	natsserver "github.com/nats-io/nats-server/v2/server"

	"millwright/events"
	"millwright/events/natsbus/embedded"
)

// cluster of servers in this process, of which some may be down.
type cluster struct {
	servers []*natsserver.Server
	options []natsserver.Options
}

// newCluster starts none of its servers.
func newCluster(t *testing.T, size int) *cluster {
	t.Helper()
	var routes []*url.URL
	var ports []int
	for range 2 * size {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = l.Close() }()
		ports = append(ports, l.Addr().(*net.TCPAddr).Port)
	}
	for _, port := range ports[size:] {
		routes = append(routes, &url.URL{Scheme: "nats", Host: fmt.Sprint("127.0.0.1:", port)})
	}
	c := &cluster{servers: make([]*natsserver.Server, size)}
	for i := range size {
		c.options = append(c.options, natsserver.Options{
			ServerName: fmt.Sprint("n", i), Host: "127.0.0.1", Port: ports[i], JetStream: true, StoreDir: t.TempDir(), JetStreamMaxStore: 4 << 30,
			MaxPayload: 8 << 20, NoSigs: true, NoLog: true, Routes: routes,
			Cluster: natsserver.ClusterOpts{Name: "test", Host: "127.0.0.1", Port: ports[size+i]},
		})
	}
	t.Cleanup(func() {
		for i := range c.servers {
			c.kill(i)
		}
	})
	return c
}

func (c *cluster) start(t *testing.T, i int) {
	t.Helper()
	o := c.options[i]
	server, err := natsserver.NewServer(&o)
	if err != nil {
		t.Fatal(err)
	}
	server.Start()
	c.servers[i] = server
}

func (c *cluster) kill(i int) {
	if c.servers[i] != nil {
		c.servers[i].Shutdown()
		c.servers[i].WaitForShutdown()
	}
	c.servers[i] = nil
}

func (c *cluster) url() string {
	var urls []string
	for _, o := range c.options {
		urls = append(urls, fmt.Sprint("nats://127.0.0.1:", o.Port))
	}
	return strings.Join(urls, ",")
}

// eventually repeats what a cluster may refuse while it elects.
func eventually(t *testing.T, what string, try func(ctx context.Context) error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	for {
		err := try(ctx)
		if err == nil {
			return
		}
		if pause(ctx, 50*time.Millisecond) != nil {
			t.Fatalf("%s: %v", what, err)
		}
	}
}

func (c *cluster) open(t *testing.T, readOnly bool, change ...func(*Config)) *Stream {
	t.Helper()
	cfg := Config{URL: c.url(), Cluster: testCluster, LogID: testLogID, ReadOnly: readOnly, CheckEvery: 100 * time.Millisecond, AckTimeout: 2 * time.Second}
	for _, f := range change {
		f(&cfg)
	}
	var stream *Stream
	eventually(t, "open", func(ctx context.Context) (err error) {
		stream, err = Open(ctx, cfg)
		return err
	})
	t.Cleanup(func() { _ = stream.Close() })
	return stream
}

// publishNext publishes until one message is stored.
func publishNext(t *testing.T, s *Stream, text string) {
	t.Helper()
	eventually(t, "publish "+text, func(ctx context.Context) error {
		return errors.Join(s.Publish(ctx, []byte(text)), s.Flush(ctx))
	})
}

// TestAClusterOfThreeLosesAnyOfItsServers: stream and bucket are on all three without a setting, and go on
// with any two.
func TestAClusterOfThreeLosesAnyOfItsServers(t *testing.T) {
	c := newCluster(t, 3)
	for i := range c.servers {
		c.start(t, i)
	}
	watcher, reader := c.open(t, false), c.open(t, true)
	read := make(chan string, 100)
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() {
		ended <- reader.Consume(ctx, 1, func(m events.Message) error { read <- string(m.Data); return nil })
	}()
	for i := range c.servers {
		c.kill(i)
		text := fmt.Sprint("without ", i)
		publishNext(t, watcher, text)
		for got := ""; got != text; {
			select {
			case got = <-read:
			case err := <-ended:
				t.Fatalf("while %q was awaited the reader ended: %v", text, err)
			case <-time.After(time.Minute):
				t.Fatalf("%q was published and not read in a minute", text)
			}
		}
		eventually(t, "put a blob "+text, func(ctx context.Context) error { return watcher.Blobs().Put(ctx, text, []byte(text)) })
		eventually(t, "get a blob "+text, func(ctx context.Context) error {
			data, err := reader.Blobs().Get(ctx, text)
			if err == nil && string(data) != text {
				err = fmt.Errorf("got %q", data)
			}
			return err
		})
		c.start(t, i)
		eventually(t, "placement", func(ctx context.Context) error {
			p, err := reader.Placement(ctx)
			if err == nil && (p.Replicas != 3 || p.Possible() != 3 || p.Offline != 0) {
				err = fmt.Errorf("%+v", p)
			}
			return err
		})
	}
	cancel()
	<-ended
}

// TestReplicasAreRaised: a stream and a bucket made with fewer replicas than there could be get them later,
// and until then it can be seen.
func TestReplicasAreRaised(t *testing.T) {
	c := newCluster(t, 3)
	for i := range c.servers {
		c.start(t, i)
	}
	publishNext(t, c.open(t, false, func(c *Config) { c.Replicas = 1 }), "kept")
	watcher := c.open(t, false)
	eventually(t, "fewer than possible", func(ctx context.Context) error {
		p, err := watcher.Placement(ctx)
		if err == nil && (p.Replicas != 1 || p.Possible() != 3) {
			err = fmt.Errorf("%+v", p)
		}
		return err
	})
	eventually(t, "raise", func(ctx context.Context) error {
		err := watcher.raiseReplicas(ctx)
		p, placeErr := watcher.Placement(ctx)
		if err == nil && placeErr == nil && (p.Replicas != 3 || p.Offline != 0) {
			err = fmt.Errorf("%+v", p)
		}
		return errors.Join(err, placeErr)
	})
	next, err := watcher.Renew(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if p, err := watcher.Placement(t.Context()); err != nil || p.Replicas != 3 {
		t.Errorf("the incarnation %s after it: %+v, %v", next.Incarnation, p, err)
	}
}

// TestAnOrdinaryServerTakesStreamAndBucket: one with three GiB in all.
func TestAnOrdinaryServerTakesStreamAndBucket(t *testing.T) {
	server, err := embedded.Start(t.TempDir(), embedded.Options{Listen: true, MaxStoreBytes: 3 << 30})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = server.Stop(context.Background()) })
	s, err := Open(t.Context(), Config{URL: server.URL(), Cluster: testCluster, LogID: testLogID})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	if p, err := s.Placement(t.Context()); err != nil || p.Replicas != 1 || p.Possible() != 1 {
		t.Errorf("%+v, %v", p, err)
	}
}

func TestAFullBucketSaysSo(t *testing.T) {
	s := startServer(t).open(t, func(c *Config) { c.MaxBlobBytes = 1 << 20 })
	noise := make([]byte, 600<<10)
	for i := range noise {
		noise[i] = byte(i * i >> 3)
	}
	err := s.Blobs().Put(t.Context(), "first", noise)
	for i := 0; err == nil && i < 100; i++ {
		err = s.Blobs().Put(t.Context(), fmt.Sprint("more-", i), append(noise, byte(i)))
	}
	if !errors.Is(err, events.ErrNoSpace) {
		t.Fatalf("got %v", err)
	}
	if err := s.Blobs().Delete(t.Context(), "first"); err != nil {
		t.Fatal(err)
	}
	if err := s.Blobs().Put(t.Context(), "after", []byte("room again")); err != nil {
		t.Error(err)
	}
}
