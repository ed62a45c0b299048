package natsbus

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/nats-io/nats.go/jetstream"
)

// replicasMost is how many replicas a stream and a bucket get unless Config says otherwise: with three, one
// server may die without interruption.
const replicasMost = 3

// mendEveryDefault is how often the bucket is looked for, and the servers are asked to raise the replicas of
// a stream or bucket that has fewer than there could be.
const mendEveryDefault = time.Minute

// Codes of the server's refusals to keep that many replicas: no such peers, not enough of them, not a
// cluster.
var tooManyReplicas = []jetstream.ErrorCode{10005, 10023, 10074}

// replicas are the numbers to try, the desired one first.
func (c Config) replicas() []int {
	switch {
	case c.Replicas > 0:
		return []int{c.Replicas}
	case c.Server != nil:
		return []int{1}
	}
	return []int{replicasMost, 1}
}

// withReplicas calls create with fewer replicas as long as the servers refuse the number.
func (c Config) withReplicas(create func(replicas int) error) error {
	var err error
	for _, n := range c.replicas() {
		if err = create(n); !refused(err, tooManyReplicas...) {
			return err
		}
	}
	return err
}

func refused(err error, codes ...jetstream.ErrorCode) bool {
	var api jetstream.JetStreamError
	return errors.As(err, &api) && api.APIError() != nil && slices.Contains(codes, api.APIError().ErrorCode)
}

// raiseReplicas gives stream and bucket the replicas they were refused when they were created, now that there
// may be more servers. Being refused again is not an error.
func (s *Stream) raiseReplicas(ctx context.Context) error {
	want := s.cfg.replicas()[0]
	for _, name := range []string{s.cfg.streamName(s.current()), "OBJ_" + s.cfg.bucket()} {
		stream, err := s.js.Stream(ctx, name)
		if err != nil {
			return fmt.Errorf("raise replicas of %s: %w", name, err)
		}
		info := stream.CachedInfo()
		if info.Cluster == nil || info.Config.Replicas >= want {
			continue
		}
		config := info.Config
		config.Replicas = want
		if _, err := s.js.UpdateStream(ctx, config); err != nil && !refused(err, tooManyReplicas...) {
			return fmt.Errorf("raise replicas of %s: %w", name, err)
		}
	}
	return nil
}

// mendSometimes makes the bucket again if that alone was lost, and raises replicas, if that was not tried
// lately. What fails is tried again.
func (s *Stream) mendSometimes(ctx context.Context) {
	if s.cfg.ReadOnly {
		return
	}
	s.mu.Lock()
	due := time.Since(s.mended) >= s.cfg.mendEvery
	if due {
		s.mended = time.Now()
	}
	s.mu.Unlock()
	if !due {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, s.cfg.RequestTimeout)
	defer cancel()
	_ = s.blobs.open(ctx)
	if s.cfg.Server == nil {
		_ = s.raiseReplicas(ctx)
	}
}

// Placement says on how many servers stream and bucket are.
type Placement struct {
	// Replicas of the stream or the bucket, whichever has fewer. Offline counts those that do not answer.
	Replicas, Offline int
	// Servers is the number of servers in the URL if they are a cluster, otherwise 1. The list that a server
	// announces would count each of their addresses.
	Servers int
}

// Possible is how many replicas there could be.
func (p Placement) Possible() int { return max(p.Replicas, min(replicasMost, p.Servers)) }

// Placement asks the server.
func (s *Stream) Placement(ctx context.Context) (Placement, error) {
	ctx, cancel := context.WithTimeout(ctx, s.cfg.RequestTimeout)
	defer cancel()
	p := Placement{Servers: 1}
	for _, name := range []string{s.cfg.streamName(s.current()), "OBJ_" + s.cfg.bucket()} {
		stream, err := s.js.Stream(ctx, name)
		if err != nil {
			return p, fmt.Errorf("ask for placement of %s: %w", name, err)
		}
		info := stream.CachedInfo()
		if p.Replicas == 0 || info.Config.Replicas < p.Replicas {
			p.Replicas = info.Config.Replicas
		}
		if info.Cluster == nil {
			continue
		}
		p.Servers = strings.Count(s.cfg.URL, ",") + 1
		offline := 0
		for _, peer := range info.Cluster.Replicas {
			if peer.Offline {
				offline++
			}
		}
		p.Offline = max(p.Offline, offline)
	}
	return p, nil
}
