// Package sim is an AWS account in memory: EC2, SSM, EKS, IAM, Pricing, SQS and STS as far as a node
// autoscaler uses them, spoken to by the unmodified AWS SDK over HTTP. It has no goroutines: an instance's
// state is a function of its timestamps and the clock, so a restart from disk continues where it was, and
// what Describe* calls see is simply the state of a moment ago (the consistency delay).
package sim

import (
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
	// KubernetesVersion is the minor version the images are for, such as 1.36.
	KubernetesVersion string
	// ClusterEndpoint and ClusterCA (PEM) are what EKS tells, and what an instance's user data must name to boot.
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
	c.ClusterName = orElse(c.ClusterName, "millwright")
	c.Region = orElse(c.Region, "us-west-2")
	c.KubernetesVersion = orElse(c.KubernetesVersion, "1.36")
	c.ClusterEndpoint = orElse(c.ClusterEndpoint, "https://"+c.ClusterName+".eks.simulated")
	c.ServiceCIDR = orElse(c.ServiceCIDR, "10.100.0.0/16")
	c.AccountID = orElse(c.AccountID, "111122223333")
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

func orElse(value, fallback string) string {
	if value == "" {
		return fallback
	}
	return value
}
