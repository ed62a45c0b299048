package network

import (
	"encoding/json"
	"net/http"

	"millwright/tools/ec2sim/sim/account"
	"millwright/tools/ec2sim/sim/wire"
	"millwright/tools/ec2sim/simclient"
)

// Control sets the free addresses of a subnet over the control interface, and puts it on an Outpost.
func (s *VPC) Control(r *http.Request, id string) (any, error) {
	sub := s.Subnet(id)
	if sub == nil {
		return nil, UnknownSubnet(id)
	}
	if r.Method == http.MethodPut {
		var body struct {
			AvailableAddresses int                `json:"availableAddresses"`
			Outpost            *simclient.Outpost `json:"outpost"`
		}
		if err := wire.DecodeControl(r, &body); err != nil {
			return nil, err
		}
		sub.Room = -1
		if body.AvailableAddresses >= 0 {
			sub.Room = body.AvailableAddresses + s.Occupied(id, s.Now())
		}
		if o := body.Outpost; o != nil {
			sub.OutpostARN, s.Outposts[o.ARN] = o.ARN, o.InstanceTypes
		}
		s.Keep("subnet", id, sub.Room)
	}
	return map[string]any{"id": id, "zone": sub.Zone.Name, "availableAddresses": s.available(sub, s.Now())}, nil
}

// LoadSubnet puts the free addresses of a subnet of the journal back.
func (s *VPC) LoadSubnet(l account.Entity) error {
	sub := s.Subnet(l.Key)
	if sub == nil { // of another set of zones
		return nil
	}
	return json.Unmarshal(l.Value, &sub.Room)
}
