package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

const (
	toolsImage   = "millwright/tools:dev"
	projectLabel = "com.docker.compose.project"
	serviceLabel = "com.docker.compose.service"
)

// project is a compose project of its own beside others on this machine.
type project struct {
	name    string
	root    string
	command []string
	// files of Compose, relative to root; zones: they are of a stack in zones.
	files             []string
	zones             bool
	kubePort, ec2Port int
	// prometheusPort is unused in a stack of zones.
	prometheusPort int
}

func newProject(ctx context.Context, root string, zones bool) (*project, error) {
	root, err := filepath.Abs(root)
	if err != nil {
		return nil, fmt.Errorf("resolve %s: %w", root, err)
	}
	p := &project{name: "millwright-test-" + strconv.Itoa(os.Getpid()), root: root, command: composeCommand(ctx), zones: zones,
		files: []string{"docker-compose.yaml", filepath.Join("deploy", "compose", "offline.yaml")}}
	if zones {
		p.files = []string{filepath.Join("deploy", "compose", "zones.yaml")}
	}
	ports, err := freePorts()
	if err != nil {
		return nil, err
	}
	p.kubePort, p.ec2Port, p.prometheusPort = ports[0], ports[1], ports[2]
	return p, nil
}

// composeCommand is the plugin of the docker command where there is one, else the standalone program.
func composeCommand(ctx context.Context) []string {
	if exec.CommandContext(ctx, "docker", "compose", "version").Run() == nil {
		return []string{"docker", "compose"}
	}
	return []string{"docker-compose"}
}

func freePorts() (ports [3]int, err error) {
	for i := range ports {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			return ports, fmt.Errorf("find a free port: %w", err)
		}
		defer l.Close()
		ports[i] = l.Addr().(*net.TCPAddr).Port
	}
	return ports, nil
}

// compose runs a Compose command on the project.
func (p *project) compose(ctx context.Context, args ...string) (string, error) {
	full := append(slices.Clone(p.command), "--project-name", p.name)
	for _, file := range p.files {
		full = append(full, "--file", file)
	}
	return p.execute(ctx, append(full, args...)...)
}

func (p *project) docker(ctx context.Context, args ...string) (string, error) {
	return p.execute(ctx, append([]string{"docker"}, args...)...)
}

// execute returns standard output; the error carries standard error.
func (p *project) execute(ctx context.Context, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, args[0], args[1:]...)
	cmd.Dir = p.root
	cmd.Env = append(os.Environ(), fmt.Sprintf("MILLWRIGHT_KUBE_PORT=%d", p.kubePort), fmt.Sprintf("MILLWRIGHT_EC2_PORT=%d", p.ec2Port),
		fmt.Sprintf("MILLWRIGHT_PROMETHEUS_PORT=%d", p.prometheusPort))
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	if err := cmd.Run(); err != nil {
		return stdout.String(), fmt.Errorf("run %s: %w\n%s", strings.Join(args, " "), errors.Join(ctx.Err(), err), stderr.String())
	}
	return stdout.String(), nil
}

// container as the engine sees it.
type container struct {
	id, service, status, health string
	pid, restarts, exit         int
	// networks that it is connected to, sorted.
	networks []string
}

// container of a service.
func (p *project) container(ctx context.Context, service string) (c container, err error) {
	found, err := p.labelled(ctx, serviceLabel+"="+service)
	switch {
	case err != nil:
		return c, fmt.Errorf("read state of %s: %w", service, err)
	case len(found) != 1:
		return c, fmt.Errorf("read state of %s: there are %d containers", service, len(found))
	}
	return found[0], nil
}

// labelled are the project's containers, running or not, that have labels.
func (p *project) labelled(ctx context.Context, also ...string) ([]container, error) {
	args := []string{"ps", "--all", "--quiet", "--filter", "label=" + projectLabel + "=" + p.name}
	for _, label := range also {
		args = append(args, "--filter", "label="+label)
	}
	list, err := p.docker(ctx, args...)
	if err != nil {
		return nil, err
	}
	found := strings.Fields(list)
	if len(found) == 0 {
		return nil, fmt.Errorf("find containers with labels %v: there are none", also)
	}
	return p.inspect(ctx, found...)
}

func (p *project) inspect(ctx context.Context, ids ...string) ([]container, error) {
	text, err := p.docker(ctx, append([]string{"container", "inspect"}, ids...)...)
	if err != nil {
		return nil, err
	}
	var found []inspected
	if err := json.Unmarshal([]byte(text), &found); err != nil {
		return nil, fmt.Errorf("read state of containers: %w", err)
	}
	var list []container
	for _, i := range found {
		list = append(list, i.container())
	}
	return list, nil
}

// inspected is the part of the engine's answer that matters here.
type inspected struct {
	ID           string `json:"Id"`
	RestartCount int
	State        struct {
		Status        string
		Pid, ExitCode int
		// Health is nil for a container without health check.
		Health *struct{ Status string }
	}
	Config          struct{ Labels map[string]string }
	NetworkSettings struct{ Networks map[string]json.RawMessage }
}

func (i inspected) container() container {
	c := container{id: i.ID, service: i.Config.Labels[serviceLabel], status: i.State.Status, pid: i.State.Pid, restarts: i.RestartCount, exit: i.State.ExitCode,
		networks: slices.Sorted(maps.Keys(i.NetworkSettings.Networks))}
	if i.State.Health != nil {
		c.health = i.State.Health.Status
	}
	return c
}

// crash kills a container's process behind the engine's back, so that its restart policy applies.
func (p *project) crash(ctx context.Context, c container) error {
	_, err := p.docker(ctx, "run", "--rm", "--network=none", "--pid=host", "--user=0", "--cap-drop=ALL", "--cap-add=KILL",
		"--entrypoint=/crash", toolsImage, strconv.Itoa(c.pid))
	return err
}

// millctl runs the CLI in a container on the stack's network. For a stack of zones that is no service of
// Compose, which would look at all of the stack's containers first.
func (p *project) millctl(ctx context.Context, args ...string) (string, error) {
	if p.zones {
		run := []string{"run", "--rm", "--network", p.name + "_" + storeNetwork, "--env", "CLUSTER_NAME=demo", "--env", "ALLOW_PLAINTEXT=true",
			"--env", "ETCD_ENDPOINTS=http://etcd-a:2379,http://etcd-b:2379,http://etcd-c:2379", "--env", "NATS_URL=nats://nats-a:4222,nats://nats-b:4222,nats://nats-c:4222",
			"--entrypoint", "/millctl", toolsImage}
		return p.docker(ctx, append(run, args...)...)
	}
	return p.compose(ctx, append([]string{"run", "--rm", "-T", "millctl"}, args...)...)
}

// copyKubeconfig to a file of the host.
func (p *project) copyKubeconfig(ctx context.Context, file string) error {
	c, err := p.container(ctx, "cluster")
	if err != nil {
		return err
	}
	_, err = p.docker(ctx, "cp", c.id+":/kube/kubeconfig", file)
	return err
}

func (p *project) takeDown(ctx context.Context) error {
	_, err := p.compose(ctx, "down", "--volumes", "--remove-orphans", "--timeout", "10")
	return err
}

// releaseNetworks removes what is still connected to the project's networks, be it only an endpoint of a
// container that is gone.
func (p *project) releaseNetworks(ctx context.Context) error {
	list, err := p.docker(ctx, "network", "ls", "--quiet", "--filter", "label="+projectLabel+"="+p.name)
	if err != nil {
		return err
	}
	for _, id := range strings.Fields(list) {
		text, err := p.docker(ctx, "network", "inspect", id)
		if err != nil {
			return err
		}
		var found []struct {
			Containers map[string]struct{ Name string }
		}
		if err := json.Unmarshal([]byte(text), &found); err != nil {
			return fmt.Errorf("read state of network %s: %w", id, err)
		}
		for _, endpoint := range found[0].Containers {
			if _, err := p.docker(ctx, "network", "disconnect", "--force", id, endpoint.Name); err != nil {
				return err
			}
		}
	}
	return nil
}

// gone checks that no container, volume or network of the project is left.
func (p *project) gone(ctx context.Context) error {
	var errs []error
	for _, list := range [][]string{{"ps", "--all"}, {"volume", "ls"}, {"network", "ls"}} {
		left, err := p.docker(ctx, append(list, "--quiet", "--filter", "label="+projectLabel+"="+p.name)...)
		if err == nil && strings.TrimSpace(left) != "" {
			err = fmt.Errorf("take down %s: `docker %s` still shows %s", p.name, list[0], strings.Fields(left))
		}
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}
