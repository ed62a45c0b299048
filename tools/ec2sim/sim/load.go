package sim

import (
	"encoding/json"
	"net/netip"
	"strings"

	"millwright/tools/ec2sim/simclient"
)

// load puts an entity of the journal back in its place. Unknown kinds are errors: the file is from a newer
// simulator.
func (s *Server) load(l line) error {
	loaders := map[string]func(line) error{
		"instance":    s.loadInstance,
		"template":    func(l line) error { return loadInto(l, s.templates) },
		"token":       func(l line) error { return loadInto(l, s.tokens) },
		"profile":     func(l line) error { return loadInto(l, s.profiles) },
		"message":     func(l line) error { return loadOnto(l, &s.queue.messages) },
		"ledger":      func(l line) error { return loadOnto(l, &s.ledger) },
		"fault":       func(l line) error { return loadOnto(l, &s.faults) },
		"settings":    func(l line) error { return json.Unmarshal(l.Value, &s.settings) },
		"reservation": func(l line) error { return loadInto(l, s.reservations) },
		"capacity":    func(l line) error { return json.Unmarshal(l.Value, &s.capacity) },
		"limits":      s.loadLimits,
		"price":       s.loadPrice,
		"subnet":      s.loadSubnet,
		"release":     s.loadRelease,
		"parameter": func(l line) error {
			s.ssm[l.Key] = strings.Trim(string(l.Value), `"`)
			return nil
		},
	}
	loader, ok := loaders[l.Kind]
	if !ok {
		return refuse("UnknownKind", "entities of kind %q are not known", l.Kind)
	}
	return loader(l)
}

func loadInto[T any](l line, m map[string]*T) error {
	v := new(T)
	m[l.Key] = v
	return json.Unmarshal(l.Value, v)
}

func loadOnto[T any](l line, list *[]*T) error {
	v := new(T)
	*list = append(*list, v)
	return json.Unmarshal(l.Value, v)
}

// loadInstance also moves its subnet's cursor on, so that addresses are not reused early.
func (s *Server) loadInstance(l line) error {
	in := &Instance{}
	if err := json.Unmarshal(l.Value, in); err != nil {
		return err
	}
	s.instances.add(in)
	addr, err := netip.ParseAddr(in.PrivateIP)
	if sub := s.network.subnet(in.SubnetID); err == nil && sub != nil && (!sub.cursor.IsValid() || sub.cursor.Less(addr)) {
		sub.cursor = addr
	}
	in.announced = in.State(s.now())
	return nil
}

func (s *Server) loadLimits(l line) error {
	var limits []simclient.Limit
	err := json.Unmarshal(l.Value, &limits)
	s.setLimits(limits)
	return err
}

func (s *Server) loadPrice(l line) error {
	var p simclient.Price
	err := json.Unmarshal(l.Value, &p)
	s.prices[priceKey{p.InstanceType, p.CapacityType, p.Zone}] = microUSD(p.USDPerHour)
	return err
}

func (s *Server) loadSubnet(l line) error {
	sub := s.network.subnet(l.Key)
	if sub == nil { // of another set of zones
		return nil
	}
	return json.Unmarshal(l.Value, &sub.Room)
}

func (s *Server) loadRelease(l line) error {
	var version string
	if err := json.Unmarshal(l.Value, &version); err != nil {
		return err
	}
	s.release(release{l.Key, version})
	return nil
}
