package natsbus

import (
	"cmp"
	"fmt"
	"net"
	"strconv"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// Config of a client. Cluster and LogID are required, and one of URL and Server.
type Config struct {
	// URL of the servers, comma separated: nats:// or tls://.
	URL string
	// Server in this process; it replaces URL.
	Server InProcess
	Security
	// ReadOnly clients consume. They create no stream and no bucket and start no new incarnation: that is the
	// watcher's task, and a server whose users are set up as in deploy/nats refuses it to anyone else.
	ReadOnly bool
	// Cluster and LogID (hex) name the stream; a cluster's name may contain any characters.
	Cluster, LogID string
	// Name of this client in the server's lists.
	Name string

	// MaxAge and MaxBytes bound what the stream retains, MaxBlobBytes the bucket; the defaults apply when
	// they are created, an explicit value also changes existing ones. A server reserves the bytes.
	MaxAge       time.Duration
	MaxBytes     int64
	MaxBlobBytes int64
	// Replicas of stream and bucket; 0: three on a cluster with that many servers, else one. They are raised
	// to that number when the servers allow it.
	Replicas int
	// PendingMax and PendingBytesMax bound publishes without acknowledgement; beyond, Publish returns
	// ErrFull.
	PendingMax      int
	PendingBytesMax int64
	// AckTimeout after which a publish counts as failed.
	AckTimeout time.Duration
	// RequestTimeout bounds one request to the server. A server that restarts never answers earlier requests,
	// so without it a request would wait as long as the caller does.
	RequestTimeout time.Duration
	// CheckEvery is how often a consumer checks whether its incarnation is still in force.
	CheckEvery time.Duration
	// lookEvery is how often a ReadOnly client looks for messages that it was not notified of.
	lookEvery time.Duration
	// doubt is how long an answer by which messages are lost is doubted.
	doubt time.Duration
	// mendEvery is how often what is not as it should be on the servers is mended.
	mendEvery time.Duration
	// MinSequence returns the highest sequence of an incarnation that is known to have been folded (the
	// Ledger's HighestPosition). Nil: nothing is known.
	MinSequence func(incarnation string) uint64
}

// Security of the connection to a server; all files are optional.
type Security struct {
	// CAFile holds the roots to trust. If it is set, the connection is made with TLS or not at all.
	CAFile string
	// CertFile and KeyFile are this client's certificate.
	CertFile, KeyFile string
	// CredentialsFile holds a NATS user JWT and seed. A user and password may be in the URL instead.
	CredentialsFile string
}

func (s Security) options() []nats.Option {
	var opts []nats.Option
	if s.CAFile != "" {
		opts = append(opts, nats.RootCAs(s.CAFile))
	}
	if s.CertFile != "" {
		opts = append(opts, nats.ClientCert(s.CertFile, s.KeyFile))
	}
	if s.CredentialsFile != "" {
		opts = append(opts, nats.UserCredentials(s.CredentialsFile))
	}
	return opts
}

// InProcess is a server in this process; *embedded.Server is one.
type InProcess interface {
	InProcessConn() (net.Conn, error)
}

// Defaults of a Config.
const (
	DefaultMaxAge          = 72 * time.Hour
	DefaultMaxBytes        = int64(1) << 30
	DefaultMaxBlobBytes    = int64(1) << 30
	DefaultPendingMax      = 4096
	DefaultPendingBytesMax = int64(64) << 20
	DefaultAckTimeout      = 5 * time.Second
	DefaultRequestTimeout  = 5 * time.Second
	DefaultCheckEvery      = time.Second
)

func (c Config) withDefaults() Config {
	setDefault(&c.PendingMax, DefaultPendingMax)
	setDefault(&c.PendingBytesMax, DefaultPendingBytesMax)
	setDefault(&c.AckTimeout, DefaultAckTimeout)
	setDefault(&c.RequestTimeout, DefaultRequestTimeout)
	setDefault(&c.CheckEvery, DefaultCheckEvery)
	setDefault(&c.lookEvery, lookEveryDefault)
	setDefault(&c.doubt, doubtDefault)
	setDefault(&c.mendEvery, mendEveryDefault)
	setDefault(&c.Name, "millwright")
	if c.MinSequence == nil {
		c.MinSequence = func(string) uint64 { return 0 }
	}
	return c
}

func setDefault[T comparable](value *T, to T) {
	var zero T
	if *value == zero {
		*value = to
	}
}

func (c Config) check() error {
	if c.Cluster == "" || len(c.LogID) < 8 {
		return fmt.Errorf("open bus: cluster %q and log-id %q are required", c.Cluster, c.LogID)
	}
	if c.URL == "" && c.Server == nil {
		return fmt.Errorf("open bus: neither a URL nor a server is given")
	}
	return nil
}

// base is what the names of all incarnations begin with.
func (c Config) base() string {
	return "MILLWRIGHT_" + sanitize(c.Cluster) + "_" + sanitize(c.LogID[:8])
}

// sanitize replaces characters that a stream name may not contain. Two clusters whose names become equal
// still differ by log-id.
func sanitize(s string) string {
	return strings.Map(func(r rune) rune {
		if r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || r == '-' || r == '_' {
			return r
		}
		return '-'
	}, s)
}

// streamName of incarnation n.
func (c Config) streamName(n int) string { return c.base() + "_" + strconv.Itoa(n) }

// number of an incarnation by its name; 0 if the name is no incarnation of this stream.
func (c Config) number(name string) int {
	digits, ok := strings.CutPrefix(name, c.base()+"_")
	n, err := strconv.Atoi(digits)
	if !ok || err != nil || n < 1 || strconv.Itoa(n) != digits {
		return 0
	}
	return n
}

func (c Config) bucket() string { return c.base() + "_blobs" }

// subjectsOf all incarnations. There is one subject per incarnation: the fold needs one order of all kinds.
func (c Config) subjectsOf() string { return "millwright.observations." + c.base() + ".*" }

// storedSubject is where the server announces that it has stored a message of incarnation n.
func (c Config) storedSubject(n int) string {
	return "millwright.stored." + c.base() + "." + strconv.Itoa(n)
}

func (c Config) subject(n int) string {
	return strings.TrimSuffix(c.subjectsOf(), "*") + strconv.Itoa(n)
}

func (c Config) streamConfig(n int) jetstream.StreamConfig {
	setDefault(&c.MaxAge, DefaultMaxAge)
	setDefault(&c.MaxBytes, DefaultMaxBytes)
	config := jetstream.StreamConfig{
		Name: c.streamName(n), Subjects: []string{c.subject(n)},
		Description: "Observations of cluster " + c.Cluster,
		Storage:     jetstream.FileStorage, Compression: jetstream.S2Compression,
		Retention: jetstream.LimitsPolicy, Discard: jetstream.DiscardOld, MaxAge: c.MaxAge, MaxBytes: c.MaxBytes,
		Duplicates: min(time.Second, c.MaxAge), DenyDelete: true, AllowDirect: true,
	}
	if c.Server == nil { // readers in other processes want to be notified
		config.RePublish = &jetstream.RePublish{Source: c.subject(n), Destination: c.storedSubject(n), HeadersOnly: true}
	}
	return config
}

// bounded applies explicit bounds to a stream as it is, and reports whether that changes it.
func (c Config) bounded(config jetstream.StreamConfig) (jetstream.StreamConfig, bool) {
	before := config
	config.MaxAge, config.MaxBytes = cmp.Or(c.MaxAge, config.MaxAge), cmp.Or(c.MaxBytes, config.MaxBytes)
	config.Replicas = cmp.Or(c.Replicas, config.Replicas)
	config.Duplicates = min(config.Duplicates, config.MaxAge)
	return config, config.MaxAge != before.MaxAge || config.MaxBytes != before.MaxBytes || config.Replicas != before.Replicas
}

// options of the connection. Without a reconnect buffer a publish fails at once while disconnected: what is
// missed is recovered by a resync, never from a backlog.
func (c Config) options() []nats.Option {
	opts := []nats.Option{
		nats.Name(c.Name), nats.MaxReconnects(-1), nats.RetryOnFailedConnect(true), nats.ReconnectBufSize(-1),
		nats.CustomReconnectDelay(reconnectDelay), nats.PingInterval(5 * time.Second), nats.MaxPingsOutstanding(2),
		nats.Timeout(5 * time.Second), nats.ErrorHandler(func(*nats.Conn, *nats.Subscription, error) {}),
	}
	if c.Server != nil {
		opts = append(opts, nats.InProcessServer(c.Server))
	}
	return append(opts, c.Security.options()...)
}

func reconnectDelay(attempts int) time.Duration {
	return min(20*time.Millisecond<<min(attempts, 7), 2*time.Second)
}
