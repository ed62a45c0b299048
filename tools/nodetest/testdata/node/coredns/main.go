// Command coredns is CoreDNS with the plugins that a cluster's own names need.
package main

import (
	"github.com/coredns/coredns/core/dnsserver"
	"github.com/coredns/coredns/coremain"
	_ "github.com/coredns/coredns/plugin/cache"      // answers are kept for some seconds
	_ "github.com/coredns/coredns/plugin/errors"     // errors are logged
	_ "github.com/coredns/coredns/plugin/kubernetes" // names of Services and their pods
	_ "github.com/coredns/coredns/plugin/ready"      // the readiness probe
)

func init() { dnsserver.Directives = []string{"ready", "errors", "cache", "kubernetes"} }

func main() { coremain.Run() }
