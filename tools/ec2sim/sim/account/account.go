// Package account is what the services of a simulated account share: identity, clock, delays, the lock, the
// journal on disk, the ledger of launches and the memory of client tokens.
package account

import (
	"encoding/json"
	"net/http"
	"sync"
	"time"

	"millwright/tools/ec2sim/catalogue"
	"millwright/tools/ec2sim/sim/wire"
	"millwright/tools/ec2sim/simclient"
)

// Account is what the services of an account share: who and where it is, its clock and delays, its journal,
// and what it remembers of launches. Operations and controls run under its lock.
type Account struct {
	sync.Mutex
	Cfg    Config
	Region *catalogue.Region
	Spot   catalogue.Spot
	// Types offered in the region, by name.
	Types    []*catalogue.Type
	Settings simclient.Settings
	tokens   map[string]*tokenRecord // by call and token
	ledger   []*simclient.Entry
	journal  *journal
	// changed is closed and replaced whenever instances or messages change.
	changed chan struct{}
}

// New returns an account without resources.
func New(cfg Config) *Account {
	cfg.setDefaults()
	region := catalogue.NewRegion(cfg.Region, cfg.zoneLetters())
	if err := region.OptIn(cfg.ZoneGroups); err != nil {
		panic(err) // whoever makes the account checks what people gave
	}
	return &Account{
		Cfg: cfg, Region: region, Spot: catalogue.Spot{Region: region, Seed: cfg.Seed}, Types: region.Types(),
		Settings: cfg.Settings, tokens: map[string]*tokenRecord{}, changed: make(chan struct{}),
	}
}

// Now is the present; Seen is the moment whose state Describe* calls return.
func (s *Account) Now() time.Time { return s.Cfg.Now() }

// Seen is the moment whose state Describe* calls return.
func (s *Account) Seen() time.Time { return s.Now().Add(-time.Duration(s.Settings.Consistency)) }

// Caller is who signs all calls.
func (s *Account) Caller() string { return "arn:aws:iam::" + s.Cfg.AccountID + ":root" }

// Changes returns a channel that is closed at the next change of an instance or message. The caller holds the
// lock.
func (s *Account) Changes() <-chan struct{} { return s.changed }

// Notify wakes those waiting for a change. The caller holds the lock.
func (s *Account) Notify() {
	close(s.changed)
	s.changed = make(chan struct{})
}

// ControlSettings serves the delays over the control interface.
func (s *Account) ControlSettings(r *http.Request) (any, error) {
	switch r.Method {
	case http.MethodGet:
	case http.MethodPatch, http.MethodPut:
		changed := s.Settings // a field that is not in the body stays
		if err := wire.DecodeControl(r, &changed); err != nil {
			return nil, err
		}
		if changed.Retention == 0 {
			changed.Retention = DefaultSettings().Retention
		}
		s.Settings = changed
		s.Keep("settings", "settings", s.Settings)
		s.Notify()
	default:
		return nil, wire.UnknownControl(r)
	}
	return s.Settings, nil
}

// LoadSettings puts the delays of the journal back.
func (s *Account) LoadSettings(l Entity) error { return json.Unmarshal(l.Value, &s.Settings) }
