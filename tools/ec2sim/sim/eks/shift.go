package eks

import (
	"encoding/json"
	"net/http"
	"strings"

	"millwright/tools/ec2sim/sim/account"
	"millwright/tools/ec2sim/sim/wire"
	"millwright/tools/ec2sim/simclient"
)

// shiftKind is what the journal calls the zonal shifts of the cluster.
const shiftKind = "zonal-shifts"

// GetManagedResource is ARC's: which zones the cluster is shifted away from. Zones are named by id. Ended
// shifts are left out, those of lower precedence are not applied.
func (s *Cluster) GetManagedResource(c *wire.Call) (any, error) {
	arn := strings.TrimPrefix(c.Path, "/managedresources/")
	if arn != s.ARN() || s.shifts.Disabled {
		e := wire.Refuse("ResourceNotFoundException", "The resource %s is not a managed resource.", arn)
		e.Status = http.StatusNotFound
		return nil, e
	}
	weights := map[string]float64{}
	for _, z := range s.Region.Zones {
		weights[z.ID] = 1
	}
	shifts, autoshifts := []map[string]any{}, []map[string]any{}
	for _, shift := range s.shifts.Shifts {
		if !shift.Until.IsZero() && !s.Now().Before(shift.Until) {
			continue
		}
		applied := "APPLIED"
		if shift.NotApplied {
			applied = "NOT_APPLIED"
		} else {
			weights[shift.AwayFrom] = 0
		}
		row := map[string]any{"appliedStatus": applied, "awayFrom": shift.AwayFrom, "startTime": s.Now().Unix()}
		if shift.Autoshift {
			autoshifts = append(autoshifts, row)
			continue
		}
		row["comment"], row["expiryTime"], row["resourceIdentifier"], row["zonalShiftId"] = "simulated", shift.Until.Unix(), arn, "shift-"+shift.AwayFrom
		shifts = append(shifts, row)
	}
	return map[string]any{"arn": arn, "name": s.Cfg.ClusterName, "appliedWeights": weights, "zonalShifts": shifts, "autoshifts": autoshifts,
		"zonalAutoshiftStatus": "DISABLED"}, nil
}

// ARN of the cluster.
func (s *Cluster) ARN() string {
	return "arn:aws:eks:" + s.Region.Name + ":" + s.Cfg.AccountID + ":cluster/" + s.Cfg.ClusterName
}

// Control sets the zonal shifts. It runs under the server's lock.
func (s *Cluster) Control(r *http.Request) (any, error) {
	switch r.Method {
	case http.MethodGet:
	case http.MethodPut:
		var changed simclient.ZonalShifts
		if err := wire.DecodeControl(r, &changed); err != nil {
			return nil, err
		}
		for _, shift := range changed.Shifts {
			if shift.AwayFrom == "" || shift.Until.IsZero() && !shift.Autoshift {
				return nil, wire.Refuse("InvalidShift", "awayFrom is required, and until of a shift that is no autoshift")
			}
		}
		s.shifts = changed
		s.Keep(shiftKind, shiftKind, s.shifts)
	default:
		return nil, wire.UnknownControl(r)
	}
	return s.shifts, nil
}

// Load puts the shifts of the journal back.
func (s *Cluster) Load(l account.Entity) error { return json.Unmarshal(l.Value, &s.shifts) }
