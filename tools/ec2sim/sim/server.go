package sim

import (
	"net/http"
	"time"

	"millwright/tools/ec2sim/catalogue"
	"millwright/tools/ec2sim/sim/account"
	"millwright/tools/ec2sim/sim/ami"
	"millwright/tools/ec2sim/sim/eks"
	"millwright/tools/ec2sim/sim/faults"
	"millwright/tools/ec2sim/sim/iam"
	"millwright/tools/ec2sim/sim/instance"
	"millwright/tools/ec2sim/sim/instancetype"
	"millwright/tools/ec2sim/sim/network"
	"millwright/tools/ec2sim/sim/placement"
	"millwright/tools/ec2sim/sim/policy"
	"millwright/tools/ec2sim/sim/pricing"
	"millwright/tools/ec2sim/sim/reservation"
	"millwright/tools/ec2sim/sim/sqs"
	"millwright/tools/ec2sim/sim/template"
	"millwright/tools/ec2sim/sim/wire"
	"millwright/tools/ec2sim/simclient"
)

// Server is the simulated account; an http.Handler for all services and the control interface.
type Server struct {
	account   *account.Account
	vpc       *network.VPC
	images    *ami.Images
	templates *template.Templates
	profiles  *iam.Profiles
	queue     *sqs.Queue
	prices    *pricing.Prices
	types     *instancetype.Types
	cluster   *eks.Cluster
	// reservations of capacity.
	reservations *reservation.Reservations
	groups       *placement.Groups
	instances    *instance.Service
	faults       *faults.Faults
	// operations by service and action.
	operations map[string]map[string]wire.Operation
	// policies of callers, by access key, and what callers needed. A caller without a policy may do
	// everything.
	policies map[string]*policy.Document
	callers  simclient.Callers
}

// New returns an account with a VPC, images, a role and an empty queue, and no instances.
func New(cfg account.Config) *Server {
	a := account.New(cfg)
	s := &Server{
		account: a, vpc: network.New(a), images: ami.New(a), templates: template.New(a), profiles: iam.New(a), queue: sqs.New(a),
		prices: pricing.New(a), faults: faults.New(a), reservations: reservation.New(a), groups: placement.New(a),
		callers: simclient.Callers{},
	}
	s.cluster = eks.New(a, s.vpc)
	s.types = instancetype.New(a, s.vpc.Outposts)
	s.instances = instance.New(a, instance.Deps{
		VPC: s.vpc, Images: s.images, Templates: s.templates, Profiles: s.profiles, Queue: s.queue, Prices: s.prices, Reservations: s.reservations,
		Groups: s.groups,
	})
	s.operations = s.allOperations()
	return s
}

// ServeHTTP answers AWS calls, the control interface under /_control/ and /healthz.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	switch {
	case r.URL.Path == "/healthz":
		w.Write([]byte("ok\n"))
	case isControl(r.URL.Path):
		s.serveControl(w, r)
	default:
		s.serveAWS(w, r)
	}
}

// Settings returns the delays in force.
func (s *Server) Settings() simclient.Settings {
	s.account.Lock()
	defer s.account.Unlock()
	return s.account.Settings
}

// Endpoint and CA of the cluster that instances must name in their user data.
func (s *Server) Cluster() (name, endpoint string, ca []byte) {
	cfg := &s.account.Cfg
	return cfg.ClusterName, cfg.ClusterEndpoint, cfg.ClusterCA
}

// Region returns the simulated region.
func (s *Server) Region() *catalogue.Region { return s.account.Region }

// Now is the account's clock.
func (s *Server) Now() time.Time { return s.account.Now() }

// Changed returns a channel that is closed at the next change of an instance or message.
func (s *Server) Changed() <-chan struct{} {
	s.account.Lock()
	defer s.account.Unlock()
	return s.account.Changes()
}

// Instances returns all instances as they are now, in order of launch.
func (s *Server) Instances() []simclient.Instance { return s.instances.List() }

// Machines returns the instances as the boot package sees them, in order of launch.
func (s *Server) Machines() []instance.Machine { return s.instances.Machines() }

// SetProgress keeps what the boot package did for an instance.
func (s *Server) SetProgress(id string, p instance.Progress) { s.instances.SetProgress(id, p) }

// Ledger returns the entries after a sequence number.
func (s *Server) Ledger(since uint64) []simclient.Entry { return s.account.Ledger(since) }

// Calls returns how often each action was called, by outcome.
func (s *Server) Calls() simclient.Calls { return s.faults.Calls() }

// Persist reads the account kept in a directory, if there is one, and keeps it there from now on. Call it
// before serving.
func (s *Server) Persist(dir string) error { return s.account.Persist(dir, s.load) }

// Close ends writing to disk.
func (s *Server) Close() error { return s.account.Close() }
