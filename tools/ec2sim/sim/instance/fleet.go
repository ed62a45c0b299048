package instance

import (
	"cmp"

	"millwright/tools/ec2sim/sim/account"
	"millwright/tools/ec2sim/sim/tag"
	"millwright/tools/ec2sim/sim/template"
	"millwright/tools/ec2sim/sim/wire"
)

// The answer of CreateFleet.
type fleetAnswer struct {
	FleetID   string       `xml:"fleetId"`
	Instances []fleetGroup `xml:"fleetInstanceSet>item"`
	Errors    []fleetError `xml:"errorSet>item"`
}

type fleetGroup struct {
	IDs          []string    `xml:"instanceIds>item"`
	InstanceType string      `xml:"instanceType"`
	Lifecycle    string      `xml:"lifecycle"`
	Source       fleetSource `xml:"launchTemplateAndOverrides"`
	pool         string
}

type fleetError struct {
	Code      string      `xml:"errorCode"`
	Message   string      `xml:"errorMessage"`
	Lifecycle string      `xml:"lifecycle"`
	Source    fleetSource `xml:"launchTemplateAndOverrides"`
}

// fleetSource echoes the override an instance or an error comes from.
type fleetSource struct {
	Template  fleetTemplate `xml:"launchTemplateSpecification"`
	Overrides fleetOverride `xml:"overrides"`
}

type fleetTemplate struct {
	ID      string `xml:"launchTemplateId,omitempty"`
	Name    string `xml:"launchTemplateName,omitempty"`
	Version string `xml:"version,omitempty"`
}

type fleetOverride struct {
	InstanceType     string `xml:"instanceType,omitempty"`
	SubnetID         string `xml:"subnetId,omitempty"`
	AvailabilityZone string `xml:"availabilityZone,omitempty"`
	ImageID          string `xml:"imageId,omitempty"`
	Priority         string `xml:"priority,omitempty"`
	MaxPrice         string `xml:"maxPrice,omitempty"`
}

// fleetRequest is a CreateFleet request as far as it is understood.
type fleetRequest struct {
	capacityType string // on-demand, spot
	total        int
	least        int // MinTargetCapacity; fewer are not launched at all
	strategy     string
	tags         map[string]map[string]string
	configs      []fleetConfig
}

type fleetConfig struct {
	template  *template.Template
	version   int
	echo      fleetTemplate
	missing   *wire.Error // the template does not exist; every override fails with it
	overrides []*wire.Params
}

func (s *Service) CreateFleet(c *wire.Call) (any, error) {
	request, err := s.readFleet(c.Params)
	if err != nil {
		return nil, err
	}
	if c.Params.Bool("DryRun") {
		return nil, wire.DryRun()
	}
	return s.Once(c, func() (any, error) { return s.launchFleet(c, request), nil })
}

func (s *Service) readFleet(p *wire.Params) (*fleetRequest, *wire.Error) {
	if kind := p.Str("Type"); kind != "instant" {
		return nil, wire.Refuse("UnsupportedOperation", "Fleet type '%s' is not simulated; only instant is.", kind)
	}
	if len(p.List("LaunchTemplateConfigs")) == 0 {
		return nil, wire.MissingParameter("LaunchTemplateConfigs")
	}
	r := &fleetRequest{tags: p.TagSpecifications()}
	for _, spec := range p.List("TagSpecification") {
		if err := tag.Check(spec, "Tag"); err != nil {
			return nil, err
		}
	}
	if err := r.readTarget(p); err != nil {
		return nil, err
	}
	for _, n := range p.List("LaunchTemplateConfigs") {
		config, err := s.readFleetConfig(n)
		if err != nil {
			return nil, err
		}
		r.configs = append(r.configs, config)
	}
	return r, nil
}

func (r *fleetRequest) readTarget(p *wire.Params) *wire.Error {
	if !p.Has("TargetCapacitySpecification.TotalTargetCapacity") {
		return wire.MissingParameter("TargetCapacitySpecification.TotalTargetCapacity")
	}
	var err *wire.Error
	if r.total, err = p.Int("TargetCapacitySpecification.TotalTargetCapacity", 0); err != nil {
		return err
	}
	if r.total < 1 || r.total > 10000 {
		return wire.InvalidValue("The total target capacity must be between 1 and 10000.")
	}
	options := "OnDemandOptions"
	r.capacityType = cmp.Or(p.Str("TargetCapacitySpecification.DefaultTargetCapacityType"), "on-demand")
	fallback := "lowest-price"
	switch r.capacityType {
	case "on-demand":
	case "spot":
		options, fallback = "SpotOptions", "lowest-price"
	case "capacity-block":
	case "reserved-capacity":
		options = "ReservedCapacityOptions"
		if kinds := p.Strs(options + ".ReservationType"); len(kinds) == 0 {
			return wire.MissingParameter(options + ".ReservationTypes")
		}
		fallback = "prioritized"
	default:
		return wire.InvalidValue("Value ( %s ) for parameter defaultTargetCapacityType is not simulated.", r.capacityType)
	}
	r.strategy = cmp.Or(p.Str(options+".AllocationStrategy"), fallback)
	if r.least, err = p.Int(options+".MinTargetCapacity", 0); err != nil {
		return err
	}
	return checkStrategy(r.capacityType, r.strategy)
}

func checkStrategy(capacityType, strategy string) *wire.Error {
	known := map[string][]string{
		"on-demand":         {"lowest-price", "prioritized"},
		"capacity-block":    {"lowest-price"},
		"reserved-capacity": {"prioritized"},
		"spot": {"lowest-price", "diversified", "capacity-optimized", "capacity-optimized-prioritized",
			"price-capacity-optimized"},
	}
	for _, s := range known[capacityType] {
		if s == strategy {
			return nil
		}
	}
	return wire.InvalidValue("Value ( %s ) for parameter allocationStrategy is invalid for %s.", strategy, capacityType)
}

// readFleetConfig resolves the template. An unknown name refuses the whole call; an unknown id shows up as
// fleet errors, as on EC2.
func (s *Service) readFleetConfig(n *wire.Params) (fleetConfig, *wire.Error) {
	spec := n.At("LaunchTemplateSpecification")
	config := fleetConfig{overrides: n.List("Overrides"), echo: fleetTemplate{spec.Str("LaunchTemplateId"),
		spec.Str("LaunchTemplateName"), spec.Str("Version")}}
	if len(config.overrides) == 0 {
		config.overrides = []*wire.Params{{}}
	}
	t, err := s.deps.Templates.Find(spec)
	if err != nil && err.Code == "InvalidLaunchTemplateId.NotFound" {
		config.missing = err
		return config, nil
	}
	if err != nil {
		return config, err
	}
	config.template = t
	config.version, err = t.Version(spec.Str("Version"))
	config.echo.ID = t.ID
	return config, err
}

// launchFleet plans which pools to take from and launches.
func (s *Service) launchFleet(c *wire.Call, r *fleetRequest) fleetAnswer {
	now := s.Now()
	answer := fleetAnswer{FleetID: "fleet-" + wire.NewRequestID()}
	picks, errs := s.allocate(r, now)
	answer.Errors = errs
	var ids []string
	for _, pick := range picks {
		pick.launch.fleetID, pick.launch.tags = answer.FleetID, r.tags
		in, err := s.launch(c, pick.launch, now)
		if err != nil {
			answer.Errors = append(answer.Errors, pick.failed(err))
			continue
		}
		ids = append(ids, in.ID)
		answer.addInstance(pick, in.ID)
	}
	if len(ids) > 0 {
		s.Notify()
	}
	s.Record(c, account.Entry{Outcome: fleetOutcome(len(ids), r.total), FleetID: answer.FleetID, Instances: ids, Tags: r.tags["instance"],
		Errors: ledgerErrors(answer.Errors)})
	s.Cfg.Log.Info().Str("fleet", answer.FleetID).Strs("instances", ids).Int("asked", r.total).
		Int("errors", len(answer.Errors)).Str("capacity_type", r.capacityType).Msg("fleet created")
	return answer
}

// ledgerErrors are the errors as the ledger keeps them: the code, and the pool if there is one.
func ledgerErrors(errs []fleetError) (out []string) {
	for _, err := range errs {
		text, o := err.Code, err.Source.Overrides
		if o.InstanceType != "" {
			text += " " + o.InstanceType + " " + o.AvailabilityZone + " " + err.Lifecycle
		}
		out = append(out, text)
	}
	return out
}

func fleetOutcome(launched, asked int) string {
	switch launched {
	case 0:
		return "none"
	case asked:
		return "launched"
	}
	return "partial"
}

// addInstance puts an instance into its pool's group.
func (a *fleetAnswer) addInstance(p pick, id string) {
	for i := range a.Instances {
		if a.Instances[i].pool == p.key {
			a.Instances[i].IDs = append(a.Instances[i].IDs, id)
			return
		}
	}
	a.Instances = append(a.Instances, fleetGroup{IDs: []string{id}, InstanceType: p.launch.instanceType.Name,
		Lifecycle: p.launch.lifecycle(), Source: p.source, pool: p.key})
}
