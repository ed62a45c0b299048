package sim

import (
	"math/rand/v2"
	"net/http"
	"sync"
	"time"

	"millwright/tools/ec2sim/catalogue"
	"millwright/tools/ec2sim/simclient"
)

// Server is the simulated account; an http.Handler for all services and the control interface.
type Server struct {
	cfg    Config
	region *catalogue.Region
	spot   catalogue.Spot
	// types offered in the region, by name; products are their Pricing API entries, built on first use.
	types []*catalogue.Type

	mu        sync.Mutex
	settings  simclient.Settings
	network   network
	images    map[string]*image
	ssm       map[string]string
	instances fleet
	templates map[string]*launchTemplate // by id
	tokens    map[string]*tokenRecord    // by call and token
	profiles  map[string]*instanceProfile
	queue     queue
	capacity  []simclient.Capacity
	// reservations of capacity, by id; those that ended stay.
	reservations map[string]*reservation
	faults       []*simclient.Fault
	buckets      map[string]*bucket
	prices       map[priceKey]int64
	ledger       []*simclient.Entry
	calls        simclient.Calls
	rng          *rand.Rand
	journal      *journal
	products     productCache
	// changed is closed and replaced whenever instances or messages change.
	changed chan struct{}
}

// New returns an account with a VPC, images, a role and an empty queue, and no instances.
func New(cfg Config) *Server {
	cfg.setDefaults()
	region := catalogue.NewRegion(cfg.Region, cfg.zoneLetters())
	s := &Server{
		cfg: cfg, region: region, spot: catalogue.Spot{Region: region, Seed: cfg.Seed}, types: region.Types(),
		settings:     cfg.Settings,
		instances:    newFleet(),
		templates:    map[string]*launchTemplate{},
		tokens:       map[string]*tokenRecord{},
		profiles:     map[string]*instanceProfile{},
		buckets:      map[string]*bucket{},
		reservations: map[string]*reservation{},
		prices:       map[priceKey]int64{},
		calls:        simclient.Calls{},
		rng:          rand.New(rand.NewPCG(uint64(cfg.Seed), 1)),
		changed:      make(chan struct{}),
	}
	s.network = newNetwork(cfg.ClusterName, cfg.AccountID, region)
	s.images, s.ssm = standardImages(cfg.KubernetesVersion)
	s.addDefaultProfile()
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

// now is the present; seen is the moment that Describe* calls tell of.
func (s *Server) now() time.Time { return s.cfg.Now() }

func (s *Server) seen() time.Time { return s.now().Add(-time.Duration(s.settings.Consistency)) }

// Settings returns the delays in force.
func (s *Server) Settings() simclient.Settings {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.settings
}

// Endpoint and CA of the cluster that instances must name in their user data.
func (s *Server) Cluster() (name, endpoint string, ca []byte) {
	return s.cfg.ClusterName, s.cfg.ClusterEndpoint, s.cfg.ClusterCA
}

// Region returns the simulated region.
func (s *Server) Region() *catalogue.Region { return s.region }

// Changed returns a channel that is closed at the next change of an instance or message.
func (s *Server) Changed() <-chan struct{} {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.changed
}

// notify wakes those waiting for a change. The caller holds the lock.
func (s *Server) notify() {
	close(s.changed)
	s.changed = make(chan struct{})
}
