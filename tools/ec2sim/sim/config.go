// Package sim is an AWS account in memory: EC2, SSM, EKS, IAM, Pricing, SQS and STS as far as a node
// autoscaler uses them; the unmodified AWS SDK talks to it over HTTP. It has no goroutines: an instance's
// state is a function of its timestamps and the clock, so a restart from disk continues where it was, and
// Describe* calls simply return the state of a moment ago (the consistency delay).
//
// Each service is a package of its own over one account.Account: wire (protocols), network, ami (images and
// SSM), template, instance (launching, describing, tagging), reservation, instancetype, pricing, iam (and
// STS), sqs, eks and faults. Server here joins them: it dispatches AWS calls and serves the control
// interface.
package sim

import (
	"millwright/tools/ec2sim/sim/account"
	"millwright/tools/ec2sim/sim/network"
	"millwright/tools/ec2sim/simclient"
)

// Config of a simulated account. The zero value is a usable us-west-2 with one cluster.
type Config = account.Config

// DiscoveryTag is what manifests select subnets and security groups by.
const DiscoveryTag = network.DiscoveryTag

// DefaultSettings are delays for demos: quick, but every state is seen.
func DefaultSettings() simclient.Settings { return account.DefaultSettings() }
