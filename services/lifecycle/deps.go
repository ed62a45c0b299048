package lifecycle

import (
	"github.com/prometheus/client_golang/prometheus"
	"github.com/rs/zerolog"

	"millwright/services/lifecycle/claims"
	"millwright/services/lifecycle/garbage"
	"millwright/services/lifecycle/nodeclass"
	"millwright/services/lifecycle/status"
)

// Cache is the cluster as informers have it. Objects are shared; lists are by name. kube.Informers is one.
type Cache interface {
	Synced() bool
	claims.Cache
	garbage.Cache
	status.Cache
}

// Kube is what is asked of the API server itself. Updates write what differs between before and after, bound
// to before's UID and resourceVersion. kube.Client is one; errors are those kube.Classify knows.
type Kube interface {
	claims.Kube
	garbage.Kube
	status.Kube
}

// EC2 is what is asked of EC2. ec2.Client is one; errors are those ec2.Classify knows.
type EC2 interface {
	claims.EC2
	garbage.EC2
}

// Deps of the service. Classes may be nil: then nobody keeps EC2NodeClasses.
type Deps struct {
	Cluster  string
	Cache    Cache
	Kube     Kube
	EC2      EC2
	Launcher claims.Launcher
	Classes  status.Classes
	// Reservations may be nil: then no node drifts because its class does not select its reservation any
	// more.
	Reservations garbage.Reservations
	// Templates and Profiles may be nil: then nobody tidies them up.
	Templates garbage.Templates
	Profiles  garbage.Profiles
	// Boots may be nil: then nobody asks why a Node does not come.
	Boots claims.Boots
	// Hasher of EC2NodeClasses; the same as that of Classes.
	Hasher nodeclass.Hasher
	Logger zerolog.Logger
	// Registerer of the metrics; nil: none.
	Registerer prometheus.Registerer
}
