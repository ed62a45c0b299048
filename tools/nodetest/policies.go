//go:build linux

package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
)

// enforcePolicies starts what drops the packets that no NetworkPolicy allows. It wants the Node to be there.
func (n *node) enforcePolicies() error {
	if !n.policies {
		return nil
	}
	return n.start("kube-router", filepath.Join(n.bin(), "kube-router"), "--kubeconfig", n.kubeconfig(), "--hostname-override", nodeName,
		"--service-cluster-ip-range", serviceNet, "--run-router=false", "--run-service-proxy=false", "--enable-cni=false", "--health-port=0")
}

// policyValues are the chart's: besides the ports that it opens as it ships, that of EC2 here.
func (n *node) policyValues() string {
	if !n.policies {
		return "networkPolicy.enabled=false"
	}
	return "networkPolicy.enabled=true,networkPolicy.egressPorts={443,6443,2379,4222,8222,53,4566}"
}

// policiesHold connects from the networks of pods to others, as the chart's table says who may reach whom.
// What nobody may reach from there is open to others: the installation does not work without it.
func (n *node) policiesHold(ctx context.Context) error {
	all, err := n.components(ctx)
	if err != nil {
		return err
	}
	at := func(component string, port int) string {
		i := slices.IndexFunc(all[component], func(p corev1.Pod) bool { return p.Status.PodIP != "" })
		return net.JoinHostPort(all[component][max(i, 0)].Status.PodIP, fmt.Sprint(port))
	}
	const client, peer, natsClient, natsPeer, kubelet = 2379, 2380, 4222, 6222, 10250
	for _, c := range []struct {
		from, program string
		may, mayNot   []string
	}{
		{"a stranger", "/coredns", nil, []string{at("etcd", client), at("etcd", peer), at("nats", natsClient), at("nats", natsPeer)}},
		{"the provisioner", "/millwright\x00provisioner", []string{at("etcd", client), at("nats", natsClient), address + ":6443"},
			[]string{at("etcd", peer), at("nats", natsPeer), fmt.Sprintf("%s:%d", address, kubelet)}},
		{"etcd", "etcd\x00--name", nil, []string{at("nats", natsClient), address + ":6443"}},
	} {
		open, err := reached(ctx, c.program, append(slices.Clone(c.may), c.mayNot...))
		if err != nil {
			return fmt.Errorf("connect from %s: %w", c.from, err)
		}
		for _, address := range c.may {
			if !slices.Contains(open, address) {
				return fmt.Errorf("the network keeps %s from %s", c.from, address)
			}
		}
		for _, address := range c.mayNot {
			if slices.Contains(open, address) {
				return fmt.Errorf("the network lets %s reach %s", c.from, address)
			}
		}
	}
	n.Out.Say("the network lets pods reach what they need, and nothing else")
	return nil
}

// reached are those of the addresses to which a connection can be made from the network of a program in a
// pod, which is named by how its command line begins.
func reached(ctx context.Context, program string, addresses []string) ([]string, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	files, err := filepath.Glob("/proc/[0-9]*/cmdline")
	if err != nil {
		return nil, err
	}
	for _, file := range files {
		line, err := os.ReadFile(file) // it may have ended
		if err != nil || !bytes.HasPrefix(line, []byte(program)) {
			continue
		}
		out, err := exec.CommandContext(ctx, "nsenter", append([]string{"--net=" + filepath.Join(filepath.Dir(file), "ns/net"), self, dialCommand}, addresses...)...).Output()
		if err != nil {
			return nil, fmt.Errorf("enter the network of %s: %w", program, err)
		}
		return strings.Fields(string(out)), nil
	}
	return nil, errors.New("there is no such program")
}

const (
	dialCommand = "dial"
	dialLimit   = 3 * time.Second
)

// dial prints those of the addresses to which a connection can be made.
func dial(addresses []string) {
	for _, address := range addresses {
		if conn, err := net.DialTimeout("tcp", address, dialLimit); err == nil {
			_ = conn.Close()
			fmt.Println(address)
		}
	}
}
