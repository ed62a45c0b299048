package ledger

import (
	"bytes"
	"encoding/json"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"millwright/planner/ledger/failing"
	"millwright/planner/version"
)

// plainState is a Ledger as the checkpoints of earlier programs hold it, as JSON.
type plainState struct {
	LogID      string    `json:"logID"`
	Cluster    string    `json:"cluster,omitempty"`
	Seq        uint64    `json:"seq"`
	LastTime   time.Time `json:"lastTime,omitzero"`
	OptionsSeq uint64    `json:"optionsSeq,omitempty"`
	Options    []byte    `json:"options,omitempty"`
	Backoff    backoff   `json:"backoff"`

	Modes        map[string]Mode                `json:"modes,omitempty"`
	Claims       map[string]*Claim              `json:"claims,omitempty"`
	Commands     map[string]*Command            `json:"commands,omitempty"`
	Drains       map[string]*Drain              `json:"drains,omitempty"`
	Offerings    plainOfferings                 `json:"offerings,omitempty"`
	Subnets      map[string]UnavailableOffering `json:"subnets,omitempty"`
	Reservations map[string]reservation         `json:"reservations,omitempty"`
	Verdicts     map[types.UID]*Verdict         `json:"verdicts,omitempty"`
	Aggregates   map[string]uint64              `json:"aggregates,omitempty"`
	Positions    map[string]uint64              `json:"positions,omitempty"`
	Shadow       map[string]string              `json:"shadow,omitempty"`
	Adopted      map[string]bool                `json:"adopted,omitempty"`
	Failing      map[string]failing.Count       `json:"failing,omitempty"`
	Control      *ControlChanged                `json:"control,omitempty"`
	ControlSeq   uint64                         `json:"controlSeq,omitempty"`
	ControlAt    time.Time                      `json:"controlAt,omitzero"`
}

func (p *plainState) ledger() *Ledger {
	l := New(p.LogID)
	l.cluster, l.seq, l.lastTime, l.optionsSeq, l.options = p.Cluster, p.Seq, p.LastTime, p.OptionsSeq, p.Options
	l.backoff, l.modes, l.positions, l.adopted, l.failing = p.Backoff, p.Modes, p.Positions, p.Adopted, p.Failing
	l.control, l.controlSeq, l.controlAt = p.Control, p.ControlSeq, p.ControlAt
	for _, c := range p.Claims {
		if c != nil {
			l.prune(c)
		}
	}
	fillTable(l.owner, &l.claims, p.Claims)
	fillTable(l.owner, &l.commands, p.Commands)
	fillTable(l.owner, &l.drains, p.Drains)
	fillMap(l.owner, &l.offerings, p.Offerings)
	fillMap(l.owner, &l.subnets, p.Subnets)
	fillMap(l.owner, &l.reservations, p.Reservations)
	fillMap(l.owner, &l.verdicts, p.Verdicts)
	fillMap(l.owner, &l.aggregates, p.Aggregates)
	fillMap(l.owner, &l.shadow, p.Shadow)
	return l
}

func fillTable[R any](o *version.Owner, t *version.Table[string, *R, *R], from map[string]*R) {
	for k, r := range from {
		if r != nil {
			t.Set(o, k, r)
		}
	}
}

func fillMap[K comparable, V any](o *version.Owner, m *version.Map[K, V], from map[K]V) {
	for k, v := range from {
		m.Set(o, k, v)
	}
}

// plainOfferings are keyed "type/zone/capacity-type" in JSON.
type plainOfferings map[OfferingKey]UnavailableOffering

// UnmarshalJSON reads an object keyed "type/zone/capacity-type".
func (o *plainOfferings) UnmarshalJSON(b []byte) error {
	if bytes.Equal(b, []byte("null")) {
		return nil
	}
	flat := map[string]UnavailableOffering{}
	if err := json.Unmarshal(b, &flat); err != nil {
		return err
	}
	*o = plainOfferings{}
	for k, u := range flat {
		parts := strings.SplitN(k, "/", 3)
		for len(parts) < 3 {
			parts = append(parts, "")
		}
		(*o)[OfferingKey{InstanceType: parts[0], Zone: parts[1], CapacityType: parts[2]}] = u
	}
	return nil
}
