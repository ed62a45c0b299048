package membus

import (
	"testing"

	"millwright/events"
	"millwright/events/eventstest"
)

type server struct{ bus *Bus }

func (s server) Connect(_ *testing.T, queueMax int) events.Stream { return s.bus.Connect(queueMax) }
func (s server) Interrupt(*testing.T)                             { s.bus.Fail() }
func (s server) Restore(*testing.T)                               { s.bus.Release() }
func (s server) Discard(_ *testing.T, first uint64)               { s.bus.Discard(first) }
func (s server) Lose(*testing.T)                                  { s.bus.Lose(0) }
func (s server) Stall(*testing.T)                                 { s.bus.Hold() }
func (s server) Unstall(*testing.T)                               { s.bus.Release() }

func TestConformance(t *testing.T) {
	eventstest.Run(t, func(*testing.T) eventstest.Server { return server{NewBus()} })
}
