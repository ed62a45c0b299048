package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
)

// Config of a local cluster.
type Config struct {
	DataDir, Kubeconfig, BindAddress, AdvertiseHost, ServiceCIDR string
	// SecurePort 0 means: the one in the data directory, else a free one.
	SecurePort int
	Fsync      bool

	APIServerArgs, SchedulerArgs, ControllerManagerArgs []string
}

// readyTimeout bounds the wait for the API server and its first service account.
const readyTimeout = 90 * time.Second

// cluster is a running control plane.
type cluster struct {
	cfg   Config
	certs *certDir
	etcd  *etcdServer
	super *supervisor
}

// Run starts the cluster and blocks until ctx ends or it cannot be started.
func Run(ctx context.Context, cfg Config) error {
	if err := cfg.complete(); err != nil {
		return err
	}
	c := &cluster{cfg: cfg, super: newSupervisor(cfg.DataDir)}
	defer c.stop()
	if err := c.start(ctx); err != nil {
		return err
	}
	fmt.Fprintf(os.Stderr, "localcluster: Kubernetes %s ready, kubeconfig %s\n", kubernetesVersion(), cfg.Kubeconfig)
	<-ctx.Done()
	return nil
}

func (cfg *Config) complete() error {
	dir, err := filepath.Abs(cfg.DataDir)
	if err != nil {
		return fmt.Errorf("resolve data directory: %w", err)
	}
	cfg.DataDir = dir
	for _, sub := range []string{"", "pids", "logs"} {
		if err := os.MkdirAll(filepath.Join(dir, sub), 0o700); err != nil {
			return fmt.Errorf("create data directory: %w", err)
		}
	}
	if cfg.Kubeconfig == "" {
		cfg.Kubeconfig = filepath.Join(dir, "kubeconfig")
	}
	if cfg.AdvertiseHost == "" {
		cfg.AdvertiseHost = cfg.BindAddress
		if ip := net.ParseIP(cfg.BindAddress); ip != nil && ip.IsUnspecified() {
			cfg.AdvertiseHost = "127.0.0.1"
		}
	}
	return cfg.choosePort()
}

// choosePort keeps the port of a data directory, so that existing kubeconfigs stay valid.
func (cfg *Config) choosePort() error {
	file := filepath.Join(cfg.DataDir, "secure-port")
	if cfg.SecurePort == 0 {
		if b, err := os.ReadFile(file); err == nil {
			cfg.SecurePort, _ = strconv.Atoi(strings.TrimSpace(string(b)))
		}
	}
	if cfg.SecurePort == 0 {
		port, err := freePort(cfg.BindAddress)
		if err != nil {
			return err
		}
		cfg.SecurePort = port
	}
	return writeFile(file, []byte(strconv.Itoa(cfg.SecurePort)))
}

// Ports are taken from below the range the kernel gives to outgoing connections, and from outside of the one
// that tools/stack takes, so that none is lost before kube-apiserver listens on it.
const (
	portsFrom  = 30000
	portsCount = 2700
	portTries  = 200
)

func freePort(address string) (int, error) {
	for range portTries {
		port := portsFrom + rand.IntN(portsCount)
		l, err := net.Listen("tcp", net.JoinHostPort(address, strconv.Itoa(port)))
		if err == nil {
			return port, l.Close()
		}
	}
	return 0, fmt.Errorf("find a free port from %d on: none in %d tries", portsFrom, portTries)
}

func (c *cluster) start(ctx context.Context) (err error) {
	if c.certs, err = c.makeCerts(); err != nil {
		return err
	}
	for _, u := range clusterUsers {
		if err := c.writeKubeconfig(u.file, u.file); err != nil {
			return err
		}
	}
	if c.etcd, err = startEtcd(filepath.Join(c.cfg.DataDir, "etcd"), c.cfg.Fsync); err != nil {
		return err
	}
	stages := filepath.Join(c.cfg.DataDir, "kwok-stages.yaml")
	if err := writeFile(stages, []byte(kwokStages())); err != nil {
		return err
	}
	c.super.start(kubeAPIServer, c.apiServerArgs())
	if err := c.waitForAPIServer(ctx); err != nil {
		return err
	}
	c.super.start(kubeControllerManager, c.controllerManagerArgs())
	c.super.start(kubeScheduler, c.schedulerArgs())
	c.super.start(kwokController, c.kwokArgs(stages))
	if err := c.waitForServiceAccount(ctx); err != nil {
		return err
	}
	return c.publishKubeconfig()
}

// stop ends the components in reverse order, etcd last.
func (c *cluster) stop() {
	c.super.stop()
	if c.etcd != nil {
		c.etcd.close()
	}
}

// clusterUsers each get a client certificate and a kubeconfig named file.
var clusterUsers = []struct {
	file, user string
	groups     []string
}{
	{"admin", "admin", []string{"system:masters"}},
	{kubeControllerManager, "system:kube-controller-manager", nil},
	{kubeScheduler, "system:kube-scheduler", nil},
	{kwokController, "kwok", []string{"system:masters"}},
}

func (c *cluster) makeCerts() (*certDir, error) {
	certs, err := openCerts(filepath.Join(c.cfg.DataDir, "pki"))
	if err != nil {
		return nil, err
	}
	hosts := []string{"localhost", "127.0.0.1", "::1", "kubernetes", "kubernetes.default", "kubernetes.default.svc", c.cfg.AdvertiseHost, firstServiceIP(c.cfg.ServiceCIDR)}
	if err := certs.issue("apiserver", "kube-apiserver", nil, hosts); err != nil {
		return nil, err
	}
	for _, u := range clusterUsers {
		if err := certs.issue(u.file, u.user, u.groups, nil); err != nil {
			return nil, err
		}
	}
	return certs, certs.keyPair("service-account")
}

func firstServiceIP(cidr string) string {
	ip, _, err := net.ParseCIDR(cidr)
	if err != nil || ip.To4() == nil {
		return "127.0.0.1"
	}
	v4 := ip.To4()
	v4[3]++
	return v4.String()
}

func (c *cluster) kubeconfigPath(name string) string {
	return filepath.Join(c.cfg.DataDir, name+".kubeconfig")
}

// writeKubeconfig for the certificate pair `user`, with the certificates inside.
func (c *cluster) writeKubeconfig(name, user string) error {
	cfg := clientcmdapi.NewConfig()
	read := func(file string) []byte {
		b, err := os.ReadFile(c.certs.path(file))
		if err != nil {
			return nil
		}
		return b
	}
	cfg.Clusters["localcluster"] = &clientcmdapi.Cluster{
		Server:                   "https://" + net.JoinHostPort(c.cfg.AdvertiseHost, strconv.Itoa(c.cfg.SecurePort)),
		CertificateAuthorityData: read("ca.crt"),
	}
	cfg.AuthInfos[user] = &clientcmdapi.AuthInfo{ClientCertificateData: read(user + ".crt"), ClientKeyData: read(user + ".key")}
	cfg.Contexts["localcluster"] = &clientcmdapi.Context{Cluster: "localcluster", AuthInfo: user}
	cfg.CurrentContext = "localcluster"
	b, err := clientcmd.Write(*cfg)
	if err != nil {
		return fmt.Errorf("encode kubeconfig %s: %w", name, err)
	}
	return writeFile(c.kubeconfigPath(name), b)
}

func (c *cluster) publishKubeconfig() error {
	b, err := os.ReadFile(c.kubeconfigPath("admin"))
	if err != nil {
		return fmt.Errorf("read admin kubeconfig: %w", err)
	}
	return writeFile(c.cfg.Kubeconfig, b)
}

func (c *cluster) client() (*kubernetes.Clientset, error) {
	rc, err := clientcmd.BuildConfigFromFlags("", c.kubeconfigPath("admin"))
	if err != nil {
		return nil, fmt.Errorf("read admin kubeconfig: %w", err)
	}
	// The certificate is valid for loopback; the advertised host may only be reachable for others.
	rc.Host = "https://" + net.JoinHostPort("127.0.0.1", strconv.Itoa(c.cfg.SecurePort))
	return kubernetes.NewForConfig(rc)
}

func (c *cluster) waitForAPIServer(ctx context.Context) error {
	return c.poll(ctx, "wait for kube-apiserver", func(ctx context.Context, cs *kubernetes.Clientset) error {
		return cs.Discovery().RESTClient().Get().AbsPath("/readyz").Do(ctx).Error()
	})
}

// waitForServiceAccount waits until pods can be created: admission needs the namespace's service account.
func (c *cluster) waitForServiceAccount(ctx context.Context) error {
	return c.poll(ctx, "wait for the default service account", func(ctx context.Context, cs *kubernetes.Clientset) error {
		_, err := cs.CoreV1().ServiceAccounts("default").Get(ctx, "default", metav1.GetOptions{})
		return err
	})
}

func (c *cluster) poll(ctx context.Context, what string, try func(context.Context, *kubernetes.Clientset) error) error {
	cs, err := c.client()
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, readyTimeout)
	defer cancel()
	for {
		last := try(ctx, cs)
		if last == nil {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("%s: %w (see %s)", what, errors.Join(ctx.Err(), last), filepath.Join(c.cfg.DataDir, "logs"))
		case <-time.After(50 * time.Millisecond):
		}
	}
}
