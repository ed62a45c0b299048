package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/pflag"

	"millwright/events/natsbus"
	natsembedded "millwright/events/natsbus/embedded"
	"millwright/services/bucket"
	"millwright/services/transport"
	"millwright/store"
	"millwright/store/archive"
	"millwright/store/etcdlog"
	etcdembedded "millwright/store/etcdlog/embedded"
	"millwright/tools/millctl/remote"
)

const connectTimeout = 15 * time.Second

// target is where log and stream are found.
type target struct {
	cluster, dataDir, natsURL string
	// archiveDir is the directory or bucket that holds archived records; empty: below dataDir.
	archiveDir string
	endpoints  []string
	security   transport.Security
	// console is where it is asked if neither dataDir nor endpoints are named.
	console remote.Settings
	// watches are the flags --watch of the commands: if one is set, the connection to the console is kept.
	watches   []*bool
	connected *remote.Client
	// malformed environment variables.
	malformed error
}

func (t *target) flags(f *pflag.FlagSet) {
	f.StringVar(&t.cluster, "cluster-name", os.Getenv("CLUSTER_NAME"), "name of the cluster")
	f.StringVar(&t.dataDir, "data-dir", os.Getenv("DATA_DIR"), "data directory of millwright all, running or not")
	f.StringVar(&t.archiveDir, "archive-dir", os.Getenv("ARCHIVE_DIR"), "directory or s3://BUCKET/PREFIX?… of archived records; default: archive below --data-dir")
	f.StringSliceVar(&t.endpoints, "etcd-endpoints", splitList(os.Getenv("ETCD_ENDPOINTS")), "endpoints of an external etcd")
	f.StringVar(&t.natsURL, "nats-url", os.Getenv("NATS_URL"), "URL of an external NATS")
	t.console.Bind(f)
	secured := pflag.NewFlagSet("", pflag.ContinueOnError)
	t.security.Bind(secured)
	secured.VisitAll(func(flag *pflag.Flag) {
		if value := os.Getenv(transport.EnvironmentName(flag.Name)); value != "" {
			t.malformed = errors.Join(t.malformed, secured.Set(flag.Name, value))
		}
	})
	f.AddFlagSet(secured)
}

func (t *target) archive() string {
	if t.archiveDir == "" && t.dataDir != "" {
		return filepath.Join(t.dataDir, "archive")
	}
	return t.archiveDir
}

func splitList(s string) []string {
	if s == "" {
		return nil
	}
	return strings.Split(s, ",")
}

// errNeedsLog: what the command does, the console does not.
var errNeedsLog = errors.New("this reads the log itself, which a kubeconfig is not enough for: name it with --cluster-name and --data-dir, or --etcd-endpoints and --nats-url; " +
	"in mode embedded run it in the pod: kubectl exec -n NAMESPACE millwright-0 -- /millctl …")

// session is an open log and, once asked for, stream. Close ends what it started.
type session struct {
	log store.Log
	// database is the live log alone.
	database *etcdlog.Log
	// archive is nil if no directory is known.
	archive *archive.Archive
	elector store.Elector
	// offline: no process serves the data directory, this one does.
	offline bool
	target  *target
	nats    natsbus.InProcess
	closers []func() error
}

func (t *target) open(ctx context.Context) (*session, error) {
	switch {
	case t.viaConsole():
		return nil, errNeedsLog
	case t.cluster == "":
		return nil, errors.New("missing --cluster-name (or CLUSTER_NAME)")
	}
	if err := errors.Join(t.malformed, t.security.Check(t.endpoints, t.natsURL)); err != nil {
		return nil, err
	}
	s := &session{target: t}
	endpoints, err := s.locate()
	if err != nil {
		return nil, errors.Join(err, s.Close())
	}
	security, err := t.security.Etcd()
	if err != nil {
		return nil, errors.Join(err, s.Close())
	}
	client, err := etcdlog.Dial(etcdlog.DialConfig{Endpoints: endpoints, Security: security})
	if err != nil {
		return nil, errors.Join(err, s.Close())
	}
	s.closers = append(s.closers, client.Close)
	ctx, cancel := context.WithTimeout(ctx, connectTimeout)
	defer cancel()
	log, err := etcdlog.Open(ctx, etcdlog.Config{Client: client, Cluster: t.cluster, MustExist: true})
	if err != nil {
		return nil, errors.Join(fmt.Errorf("open the log of cluster %s at %s: %w", t.cluster, strings.Join(endpoints, ", "), err), s.Close())
	}
	s.log, s.database, s.elector = log, log, etcdlog.NewElector(client, t.cluster)
	s.closers = append(s.closers, log.Close)
	if dir := t.archive(); dir != "" {
		if s.archive, err = bucket.Open(ctx, dir, log.ID(), time.Now); err != nil {
			return nil, errors.Join(err, s.Close())
		}
		s.closers = append(s.closers, s.archive.Close)
		s.log = archive.Join(log, s.archive)
	}
	return s, nil
}

// locate finds the endpoints of etcd. On a data directory that no process serves it serves that directory
// itself.
func (s *session) locate() ([]string, error) {
	t := s.target
	if t.dataDir == "" {
		return t.endpoints, nil
	}
	etcdDir, natsDir := filepath.Join(t.dataDir, "etcd"), filepath.Join(t.dataDir, "nats")
	if _, err := os.Stat(etcdDir); err != nil {
		return nil, fmt.Errorf("find the log: %w", err)
	}
	if etcdembedded.Running(etcdDir) {
		s.nats = natsembedded.Dir(natsDir)
		return etcdembedded.Endpoints(etcdDir)
	}
	s.offline = true
	etcd, err := etcdembedded.Start(etcdDir)
	if err != nil {
		return nil, err
	}
	s.closers = append(s.closers, etcd.Close)
	nats, err := natsembedded.Start(natsDir)
	if err != nil {
		return nil, err
	}
	s.nats = nats
	s.closers = append(s.closers, func() error {
		ctx, cancel := context.WithTimeout(context.Background(), connectTimeout)
		defer cancel()
		return nats.Stop(ctx)
	})
	return etcd.Endpoints, nil
}

// stream opens the observation stream.
func (s *session) stream(ctx context.Context) (*natsbus.Stream, error) {
	if s.nats == nil && s.target.natsURL == "" {
		return nil, errors.New("missing --nats-url")
	}
	ctx, cancel := context.WithTimeout(ctx, connectTimeout)
	defer cancel()
	stream, err := natsbus.Open(ctx, natsbus.Config{
		URL: s.target.natsURL, Server: s.nats, Security: s.target.security.NATS(), ReadOnly: s.nats == nil,
		Cluster: s.target.cluster, LogID: s.log.ID(), Name: "millctl",
	})
	if err != nil {
		return nil, fmt.Errorf("open the observation stream: %w", err)
	}
	s.closers = append(s.closers, stream.Close)
	return stream, nil
}

// Close ends everything, last opened first.
func (s *session) Close() error {
	var errs []error
	for i := len(s.closers) - 1; i >= 0; i-- {
		errs = append(errs, s.closers[i]())
	}
	s.closers = nil
	return errors.Join(errs...)
}
