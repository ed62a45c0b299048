package account

import (
	"cmp"
	"context"
	"strings"
	"time"

	"github.com/rs/zerolog"

	"millwright/tools/ec2sim/simclient"
)

// Config of a simulated account. The zero value is a usable us-west-2 with one cluster.
type Config struct {
	// ClusterName is the EKS cluster, the default queue's name and the value of the discovery tags.
	ClusterName string
	Region      string
	// Zones by name or letter; empty for all zones of the region.
	Zones []string
	// ZoneGroups of local and Wavelength zones that the account has opted in to.
	ZoneGroups []string
	// KubernetesVersion is the minor version the images are for, such as 1.36.
	KubernetesVersion string
	// ClusterEndpoint and ClusterCA (PEM) are what EKS reports, and what an instance's user data must name to
	// boot.
	ClusterEndpoint string
	ClusterCA       []byte
	ServiceCIDR     string
	AccountID       string
	// Roles that IAM knows besides the node role of the cluster.
	Roles []string
	// Seed of spot prices and of fault rates.
	Seed int64
	// Settings are the initial delays; see DefaultSettings.
	Settings simclient.Settings
	Log      zerolog.Logger
	// Now and Sleep replace the clock in tests.
	Now   func() time.Time
	Sleep func(ctx context.Context, d time.Duration) error
}

// DefaultSettings are delays for demos: quick, but every state is seen.
func DefaultSettings() simclient.Settings {
	return simclient.Settings{
		Pending:      simclient.Duration(time.Second),
		ShuttingDown: simclient.Duration(time.Second),
		Retention:    simclient.Duration(time.Hour),
		SpotNotice:   simclient.Duration(2 * time.Minute),
		Boot:         simclient.Duration(time.Second),
	}
}

func (c *Config) setDefaults() {
	c.ClusterName = cmp.Or(c.ClusterName, "millwright")
	c.Region = cmp.Or(c.Region, "us-west-2")
	c.KubernetesVersion = cmp.Or(c.KubernetesVersion, "1.36")
	c.ClusterEndpoint = cmp.Or(c.ClusterEndpoint, "https://"+c.ClusterName+".eks.simulated")
	c.ServiceCIDR = cmp.Or(c.ServiceCIDR, "10.100.0.0/16")
	c.AccountID = cmp.Or(c.AccountID, "111122223333")
	if c.Settings.Retention == 0 {
		c.Settings.Retention = DefaultSettings().Retention
	}
	if c.Settings.SpotNotice == 0 {
		c.Settings.SpotNotice = DefaultSettings().SpotNotice
	}
	if c.Now == nil {
		c.Now = time.Now
	}
	if c.Sleep == nil {
		c.Sleep = sleep
	}
}

// zoneLetters turns zone names or letters into the letters of the catalogue.
func (c *Config) zoneLetters() string {
	var letters strings.Builder
	for _, zone := range c.Zones {
		if zone = strings.TrimSpace(zone); zone != "" {
			letters.WriteString(zone[len(zone)-1:])
		}
	}
	return letters.String()
}

func sleep(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
