package sim

import (
	"millwright/tools/ec2sim/sim/account"
	"millwright/tools/ec2sim/sim/wire"
)

// load puts an entity of the journal back in its place. Unknown kinds are errors: the file is from a newer
// simulator.
func (s *Server) load(l account.Entity) error {
	loaders := map[string]func(account.Entity) error{
		"instance":        s.instances.LoadInstance,
		"template":        s.templates.Load,
		"token":           s.account.LoadToken,
		"profile":         s.profiles.Load,
		"message":         s.queue.Load,
		"ledger":          s.account.LoadLedger,
		"fault":           s.faults.Load,
		"settings":        s.account.LoadSettings,
		"reservation":     s.reservations.Load,
		"placement-group": s.groups.Load,
		"capacity":        s.instances.LoadCapacity,
		"quotas":          s.instances.LoadQuotas,
		"limits":          s.faults.LoadLimits,
		"price":           s.prices.LoadPrice,
		"subnet":          s.vpc.LoadSubnet,
		"release":         s.images.LoadRelease,
		"parameter":       s.images.LoadParameter,
		"zonal-shifts":    s.cluster.Load,
	}
	loader, ok := loaders[l.Kind]
	if !ok {
		return wire.Refuse("UnknownKind", "entities of kind %q are not known", l.Kind)
	}
	return loader(l)
}
