package judge

import (
	"slices"
	"strings"

	"millwright/planner/ledger"
	"millwright/services/sim/stage"
)

// CheckShadow demands that a process in shadow mode only reads, and appends.
func (s *Judge) CheckShadow(by Process, call string) {
	verb, _, _ := strings.Cut(call, " ")
	if by.Mode() == ledger.ModeShadow && !slices.Contains([]string{"append", "read", "get", "list", "ec2:DescribeInstances"}, verb) {
		s.Violate(CheckShadow, "%s: %s", by, call)
	}
}

// CheckStopped demands that nothing is begun that operators have stopped.
func (s *Judge) CheckStopped(by Process, call string) {
	if s.Clock.Now().Sub(s.Operator.Since) <= stage.StopLag {
		return
	}
	var forbidden []string
	switch s.Operator.Stop {
	case ledger.StopAll:
		forbidden = []string{"create nodeclaim", "delete nodeclaim", "ec2:CreateFleet", "ec2:TerminateInstances", "evict pod", "delete pod"}
	case ledger.StopVoluntary:
		if by.Name() == ledger.ServiceDisruptor {
			forbidden = []string{"delete nodeclaim"}
		}
	}
	for _, f := range forbidden {
		if strings.HasPrefix(call, f) {
			s.Violate(CheckStopped, "%s: %s, stopped (%s) for %s", by, call, s.Operator.Stop, s.Clock.Now().Sub(s.Operator.Since))
		}
	}
}
