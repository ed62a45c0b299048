package ami

import (
	"cmp"
	"encoding/json"
	"net/http"
	"strconv"
	"strings"

	"millwright/tools/ec2sim/sim/account"
	"millwright/tools/ec2sim/sim/wire"
)

// ControlImages publishes releases over the control interface.
func (s *Images) ControlImages(r *http.Request) (any, error) {
	if r.Method != http.MethodPost {
		return s.Versions(), nil
	}
	var body struct {
		Date         string `json:"date"`
		Bottlerocket string `json:"bottlerocket"`
	}
	if err := wire.DecodeControl(r, &body); err != nil {
		return nil, err
	}
	if _, err := strconv.Atoi(body.Date); err != nil || len(body.Date) != 8 {
		return nil, wire.Refuse("InvalidRelease", "date must be YYYYMMDD")
	}
	body.Bottlerocket = cmp.Or(body.Bottlerocket, "1."+body.Date[2:]+".0")
	s.release(release{body.Date, body.Bottlerocket})
	s.Keep("release", body.Date, body.Bottlerocket)
	return s.Versions(), nil
}

// ControlParameters sets SSM parameters over the control interface.
func (s *Images) ControlParameters(r *http.Request) (any, error) {
	var body struct{ Name, Value string }
	if r.Method != http.MethodPut {
		return s.parameters, nil
	}
	if err := wire.DecodeControl(r, &body); err != nil {
		return nil, err
	}
	s.parameters[body.Name] = body.Value
	s.Keep("parameter", body.Name, body.Value)
	return map[string]string{body.Name: body.Value}, nil
}

// LoadRelease publishes a release of the journal again.
func (s *Images) LoadRelease(l account.Entity) error {
	var version string
	if err := json.Unmarshal(l.Value, &version); err != nil {
		return err
	}
	s.release(release{l.Key, version})
	return nil
}

// LoadParameter puts an SSM parameter of the journal back.
func (s *Images) LoadParameter(l account.Entity) error {
	s.parameters[l.Key] = strings.Trim(string(l.Value), `"`)
	return nil
}
