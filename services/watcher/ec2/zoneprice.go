package ec2

import "strings"

// addZonePrices overlays what types cost on demand in the local and Wavelength zones that they are offered
// in, by the tables of these zones: a quarter more than in the region, or up to twice as much. The price
// API is asked about the region alone. It reports whether there are such prices; o is nil as long as it is
// not known what is offered. The caller holds the lock.
func (p *prices) addZonePrices(o *offered) bool {
	if o == nil || p.zonesOf == o {
		return p.hasZones
	}
	p.zonesOf, p.hasZones = o, false
	found := zonePrices(o.zones)
	p.hasZones = len(found) > 0
	p.addFound(found)
	return p.hasZones
}

// zonePrices by type and zone, for zones of their own prices alone. offeredIn is by type and zone.
func zonePrices(offeredIn map[string]map[string]bool) map[priceKey]int64 {
	tables, found := map[string]*builtIn{}, map[priceKey]int64{}
	for name, zones := range offeredIn {
		for zone := range zones {
			t, looked := tables[zone]
			if !looked {
				if table := tableOfZone(priceTables, zone); table != "" {
					t = pricesFor(table)
				}
				tables[zone] = t
			}
			if t != nil && t.Prices[name] > 0 {
				found[priceKey{name, onDemand, zone}] = t.Prices[name]
			}
		}
	}
	return found
}

// tableOfZone names the table with the prices of a local or Wavelength zone, which are those of its city:
// us-west-2-lax-1 for us-west-2-lax-1b, and us-west-2-wl1-las1 for us-west-2-wl1-las-wlz-1. "" if there is
// none, as for each Availability Zone.
func tableOfZone(text, zone string) string {
	city := cityOf(zone)
	if city == "" {
		return ""
	}
	for line := range strings.Lines(text) {
		if fields := strings.Fields(line); len(fields) == 3 && fields[0] == regionLine && cityOf(fields[1]) == city {
			return fields[1]
		}
	}
	return ""
}

// cityOf a local or Wavelength zone, or of the table of some, with the region and the network before it; ""
// of others. An Availability Zone has three parts, or four in GovCloud.
func cityOf(name string) string {
	parts := strings.Split(name, "-")
	switch {
	case len(parts) < 5:
		return ""
	case strings.HasPrefix(parts[3], "wl"):
		return strings.Join(parts[:4], "-") + "-" + strings.TrimRight(parts[4], "0123456789")
	}
	return strings.Join(parts[:4], "-")
}
