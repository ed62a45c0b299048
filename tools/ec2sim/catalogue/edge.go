package catalogue

import (
	"fmt"
	"slices"
	"strings"
)

// Kinds of zones, as EC2 names them. Those of the other two than AvailabilityZone are away from the region's
// data centres, have few types, and are there for who has opted in to their group.
const (
	AvailabilityZone = "availability-zone"
	LocalZone        = "local-zone"
	WavelengthZone   = "wavelength-zone"
)

// edgeZones there are in a region, by name: an excerpt.
var edgeZones = map[string][]Zone{
	"us-west-2": {
		{Name: "us-west-2-den-1a", ID: "usw2-den1-az1"}, {Name: "us-west-2-lax-1a", ID: "usw2-lax1-az1"}, {Name: "us-west-2-lax-1b", ID: "usw2-lax1-az2"},
		{Name: "us-west-2-wl1-las-wlz-1", ID: "usw2-wl1-las-wlz1"}, {Name: "us-west-2-wl1-sea-wlz-1", ID: "usw2-wl1-sea-wlz1"},
	},
	"us-east-1": {
		{Name: "us-east-1-bos-1a", ID: "use1-bos1-az1"}, {Name: "us-east-1-chi-2a", ID: "use1-chi2-az1"}, {Name: "us-east-1-wl1-bos-wlz-1", ID: "use1-wl1-bos-wlz1"},
	},
}

// EdgeZones are the local and Wavelength zones of a region, whether anybody has opted in to them or not, by
// name.
func EdgeZones(region string) []Zone { return slices.Clone(edgeZones[region]) }

// Kind of the zone.
func (z Zone) Kind() string {
	for _, list := range edgeZones {
		if slices.Contains(list, z) {
			if strings.Contains(z.Name, "-wl") {
				return WavelengthZone
			}
			return LocalZone
		}
	}
	return AvailabilityZone
}

// Group of a local or Wavelength zone, to all of which one opts in at once; "" of others.
func (z Zone) Group() string {
	switch z.Kind() {
	case WavelengthZone:
		return strings.Join(strings.Split(z.Name, "-")[:4], "-")
	case LocalZone:
		return z.Name[:len(z.Name)-1]
	}
	return ""
}

// OptIn adds the zones of groups of local and Wavelength zones to the region.
func (r *Region) OptIn(groups []string) error {
	for _, group := range groups {
		known := false
		for _, z := range edgeZones[r.Name] {
			if z.Group() != group {
				continue
			}
			if known = true; !slices.Contains(r.Zones, z) {
				r.Zones = append(r.Zones, z)
			}
		}
		if !known {
			return fmt.Errorf("opt in to %s: there is no such group of local or Wavelength zones in %s", group, r.Name)
		}
	}
	return nil
}

// edgeTypes are those of local zones, and wavelengthTypes those of Wavelength zones, as documented for Los
// Angeles and Las Vegas.
var (
	edgeTypes = []string{
		"t3.medium", "t3.xlarge", "t3.2xlarge", "m5.2xlarge", "r5.2xlarge", "c5.2xlarge", "c5.4xlarge", "c5.9xlarge", "c5d.2xlarge", "g4dn.2xlarge",
	}
	wavelengthTypes = []string{"t3.medium", "t3.xlarge", "r5.2xlarge", "g4dn.2xlarge"}
)

// HasSpot reports that spot instances are launched in the zone.
func (z Zone) HasSpot() bool { return z.Kind() != WavelengthZone }
