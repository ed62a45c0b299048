package embedded

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/nats-io/nats-server/v2/server"
)

// A server that cannot store is given up after so many looks in a row, this far apart.
const (
	looksMax  = 3
	lookEvery = 10 * time.Second
)

// Watch returns an error once the server has stored nothing for half a minute, and nil when ctx ends. A
// stream to which the server could not write once, because the disk was full, takes nothing more until the
// server is started anew, whatever room there is by then.
func (s *Server) Watch(ctx context.Context) error {
	ticker := time.NewTicker(s.lookEvery)
	defer ticker.Stop()
	for looks := 0; ; {
		select {
		case <-ctx.Done():
			return nil
		case <-ticker.C:
		}
		err := s.stores()
		if err == nil {
			looks = 0
		} else if looks++; looks == looksMax {
			return fmt.Errorf("embedded nats stores nothing more until it is started anew: %w", err)
		}
	}
}

// stores says why the server cannot store; nil if it can.
func (s *Server) stores() error {
	if !s.nats.JetStreamEnabled() {
		return errors.New("JetStream is disabled")
	}
	for _, e := range s.nats.Healthz(&server.HealthzOptions{Details: true}).Errors {
		if e.Type == server.HealthzErrorStream && strings.Contains(e.Error, "write error") {
			return errors.New(e.Error)
		}
	}
	return nil
}
