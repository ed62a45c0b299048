// Package preflight looks at a cluster and its AWS account before Millwright is installed, and after, for
// what would keep it from working: versions, CRDs, rights, another autoscaler, the network that
// EC2NodeClasses select, and settings of etcd and NATS that are unsafe.
//
// It changes nothing. Every check answers with a Result, also when it could not be made; a check never fails
// the others.
package preflight

import (
	"context"
	"fmt"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"k8s.io/client-go/rest"

	"millwright/services/durability"
)

// Verdict of a check.
type Verdict string

// Verdicts: Failed keeps Millwright from working, Warning makes it work worse or less safely, Skipped could
// not be found out.
const (
	OK      Verdict = "ok"
	Warning Verdict = "warning"
	Failed  Verdict = "failed"
	Skipped Verdict = "skipped"
)

// Result of a check.
type Result struct {
	// Check is the name of the group: kubernetes, crds, nodes, lease, rights, aws, permissions, queue,
	// nodeclasses, archive, etcd or nats.
	Check   string  `json:"check"`
	Verdict Verdict `json:"verdict"`
	// Object that it is about, if there are several.
	Object  string `json:"object,omitempty"`
	Message string `json:"message"`
	// Remedy says what to do; "" if nothing is to be done.
	Remedy string `json:"remedy,omitempty"`
}

// Config says where to look. A part whose configuration is missing is skipped, and says so.
type Config struct {
	// Cluster is the name of the EKS cluster.
	Cluster string
	// Kube is nil if no cluster is known.
	Kube *rest.Config
	// Namespace of the release, and Account the base name of its ServiceAccounts.
	Namespace, Account string
	// AWS is nil if no account is known; AWSError says why.
	AWS      *aws.Config
	AWSError error
	// Service whose IAM policy the credentials are to have, of package iam.
	Service string
	// Queue is the name of the interruption queue; "": there is to be none.
	Queue string
	// Archive is where records go that leave the log: a directory, or a bucket; "": it is not known.
	Archive string
	// Servers are the external etcd and NATS; without EtcdMembers or NATSMonitoring there is none.
	Servers durability.Config
}

// partTimeout bounds each part.
const partTimeout = time.Minute

// report collects the results of a part.
type report struct {
	check   string
	results []Result
}

func (r *report) add(v Verdict, object, remedy, format string, args ...any) {
	r.results = append(r.results, Result{Check: r.check, Verdict: v, Object: object, Message: fmt.Sprintf(format, args...), Remedy: remedy})
}

// Run makes all checks, in a fixed order.
func Run(ctx context.Context, cfg Config) []Result {
	parts := []struct {
		check string
		run   func(context.Context, Config, *report)
	}{
		{"kubernetes", checkVersion}, {"crds", checkCRDs}, {"nodes", checkNodes}, {"lease", checkLease}, {"rights", checkRights},
		{"aws", checkAccount}, {"permissions", checkPermissions}, {"queue", checkQueue}, {"nodeclasses", checkNodeClasses},
		{"archive", checkArchive}, {"etcd", checkEtcd}, {"nats", checkNATS},
	}
	var all []Result
	for _, p := range parts {
		r := &report{check: p.check}
		func() {
			ctx, cancel := context.WithTimeout(ctx, partTimeout)
			defer cancel()
			p.run(ctx, cfg, r)
		}()
		all = append(all, r.results...)
	}
	return all
}
