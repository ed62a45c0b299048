package providerid_test

import (
	"strings"
	"testing"

	"millwright/planner/providerid"
)

func TestProviderIDsAreRead(t *testing.T) {
	cases := map[string]struct {
		id                  string
		last, zone, splitID string
		valid               bool
	}{
		"of EC2":              {providerid.Of("eu-west-1a", "i-0123456789abcdef0"), "i-0123456789abcdef0", "eu-west-1a", "i-0123456789abcdef0", true},
		"of another":          {"kwok:///zone/node-1", "node-1", "zone", "node-1", false},
		"no instance's":       {"aws:///eu-west-1a/node-1", "node-1", "eu-west-1a", "node-1", false},
		"an instance id":      {"i-1", "i-1", "", "", false},
		"without a zone":      {"aws:///i-1", "i-1", "", "", false},
		"with two slashes":    {"aws://eu-west-1a/i-1", "i-1", "", "", false},
		"with something else": {"aws:///eu-west-1a/i-1/x", "x", "eu-west-1a/i-1", "x", false},
		"empty":               {"", "", "", "", false},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			if got := providerid.InstanceID(c.id); got != c.last {
				t.Errorf("last part %q, want %q", got, c.last)
			}
			if zone, id := providerid.Split(c.id); zone != c.zone || id != c.splitID {
				t.Errorf("split into %q and %q, want %q and %q", zone, id, c.zone, c.splitID)
			}
			if got := providerid.IsInstanceID(c.last); got != strings.HasPrefix(c.last, "i-") {
				t.Errorf("the last part is an instance's id: %t", got)
			}
			zone, id, err := providerid.Parse(c.id)
			if (err == nil) != c.valid || err == nil && (zone != c.zone || id != c.splitID) {
				t.Errorf("parsed as %q and %q, %v; valid: %t", zone, id, err, c.valid)
			}
		})
	}
}
