package process

import (
	"fmt"
	"slices"
	"strings"

	"millwright/planner/ledger"
)

// moded are the services that have a mode; the watcher publishes in any.
var moded = []string{ledger.ServiceProvisioner, ledger.ServiceDisruptor, ledger.ServiceTerminator, ledger.ServiceLifecycle}

// modes is the mode of each service, by name; "" stands for all that are not named.
type modes map[string]ledger.Mode

// parseModes reads --mode: a mode for all, and "service=mode" for some.
func parseModes(value string) (modes, error) {
	m := modes{"": ledger.ModeActive}
	for _, part := range strings.Split(value, ",") {
		name, mode, named := strings.Cut(part, "=")
		if !named {
			name, mode = "", part
		}
		switch {
		case named && !slices.Contains(moded, name):
			return nil, fmt.Errorf("--mode: %q has no mode; the services are %s", name, strings.Join(moded, ", "))
		case mode != string(ledger.ModeActive) && mode != string(ledger.ModeShadow):
			return nil, fmt.Errorf("--mode is active or shadow, for all or as service=mode, not %q", part)
		}
		m[name] = ledger.Mode(mode)
	}
	return m, nil
}

// of a service.
func (m modes) of(service string) ledger.Mode {
	if mode, ok := m[service]; ok {
		return mode
	}
	return m[""]
}

// ModeOf is the mode a service of this process works in. With invalid settings every service works in shadow
// mode.
func (s *Settings) ModeOf(service string) ledger.Mode {
	m, err := parseModes(s.Mode)
	if err != nil {
		return ledger.ModeShadow
	}
	return m.of(service)
}
