package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"millwright/tools/stack"
)

const (
	zoneLabel = "millwright.zone"
	// storeNetwork of deploy/compose/zones.yaml leads to etcd and NATS, the other to API server and EC2.
	storeNetwork = "store"
)

// zoned are the containers of deploy/compose/zones.yaml that keep running, each called after its zone.
var zoned = []string{
	"etcd-a", "etcd-b", "etcd-c", "nats-a", "nats-b", "nats-c", "cluster", "ec2sim", "watcher-a", "watcher-b", "provisioner-b", "provisioner-c",
	"disruptor-c", "disruptor-a", "terminator-a", "terminator-b", "lifecycle-b", "lifecycle-c",
}

// zoneCutOff disconnects all containers of the zone in which lifecycle leads at once, while pods come and go.
func (t *test) zoneCutOff(ctx context.Context) error {
	zone, err := t.zoneOfLeader(ctx, "lifecycle")
	if err != nil {
		return err
	}
	lost, err := t.project.labelled(ctx, zoneLabel+"="+zone)
	if err != nil {
		return err
	}
	t.out.Say("cut zone %s off: %s", zone, names(lost))
	if err := t.project.disconnect(ctx, lost, ""); err != nil {
		return err
	}
	if err := t.goesOn(ctx, 14, 1); err != nil {
		return err
	}
	t.out.Say("connect zone %s again", zone)
	if err := t.project.connect(ctx, lost); err != nil {
		return err
	}
	return t.allHealthy(ctx)
}

// zoneKilled kills all containers of the zone in which the watcher leads at once; they stay down until they
// are started.
func (t *test) zoneKilled(ctx context.Context) error {
	zone, err := t.zoneOfLeader(ctx, "watcher")
	if err != nil {
		return err
	}
	lost, err := t.project.labelled(ctx, zoneLabel+"="+zone)
	if err != nil {
		return err
	}
	t.out.Say("kill zone %s: %s", zone, names(lost))
	if _, err := t.project.docker(ctx, append([]string{"kill"}, ids(lost)...)...); err != nil {
		return err
	}
	if err := t.goesOn(ctx, 3, 4); err != nil {
		return err
	}
	t.out.Say("start zone %s again", zone)
	if _, err := t.project.docker(ctx, append([]string{"start"}, ids(lost)...)...); err != nil {
		return err
	}
	return t.allHealthy(ctx)
}

// leadersCutOff cuts all leaders off from etcd and NATS at once. They still reach the API server and EC2, but
// the standbys lead.
func (t *test) leadersCutOff(ctx context.Context) error {
	before, err := t.leaders(ctx)
	if err != nil {
		return err
	}
	var lost []container
	for _, service := range stack.Services {
		c, err := t.project.container(ctx, before[service])
		if err != nil {
			return err
		}
		lost = append(lost, c)
	}
	t.out.Say("cut the leaders off from etcd and NATS: %s", names(lost))
	if err := t.project.disconnect(ctx, lost, storeNetwork); err != nil {
		return err
	}
	if err := t.goesOn(ctx, 17, 0); err != nil {
		return err
	}
	now, err := t.leaders(ctx)
	if err != nil {
		return err
	}
	for service, identity := range now {
		if identity == before[service] {
			return fmt.Errorf("%s leads, and is cut off from etcd", identity)
		}
	}
	t.out.Say("connect them again")
	if err := t.project.connect(ctx, lost); err != nil {
		return err
	}
	return t.allHealthy(ctx)
}

// goesOn: pods get their nodes, and nothing is launched twice.
func (t *test) goesOn(ctx context.Context, inflate, cache int) error {
	if err := t.cluster.Scale(ctx, inflate, cache); err != nil {
		return err
	}
	if err := t.cluster.Settled(ctx, inflate, cache); err != nil {
		return err
	}
	return t.cluster.LaunchedOnce(ctx)
}

// leaders are the containers that lead, by service, once all are led.
func (t *test) leaders(ctx context.Context) (led map[string]string, err error) {
	err = t.out.Await(ctx, "leaders", func(ctx context.Context) string {
		text, err := t.project.millctl(ctx, "status", "-o", "json")
		if err != nil {
			return err.Error()
		}
		var status struct {
			Services []struct{ Service, Identity string }
		}
		if err := json.Unmarshal([]byte(text), &status); err != nil {
			return err.Error()
		}
		led = map[string]string{}
		for _, s := range status.Services {
			if slices.Contains(stack.Services, s.Service) && s.Identity != "" {
				led[s.Service] = s.Identity
			}
		}
		if len(led) < len(stack.Services) {
			return fmt.Sprintf("only %v are led", led)
		}
		return ""
	})
	return led, err
}

func (t *test) zoneOfLeader(ctx context.Context, service string) (string, error) {
	led, err := t.leaders(ctx)
	if err != nil {
		return "", err
	}
	_, zone, _ := strings.Cut(led[service], "-")
	return zone, nil
}

// disconnect containers from all their networks, or from one.
func (p *project) disconnect(ctx context.Context, list []container, network string) error {
	return atOnce(list, func(c container) error {
		for _, n := range c.networks {
			if network != "" && n != p.name+"_"+network {
				continue
			}
			if _, err := p.docker(ctx, "network", "disconnect", n, c.id); err != nil {
				return err
			}
		}
		return nil
	})
}

// connect containers to the networks that they had, under the names that others know.
func (p *project) connect(ctx context.Context, list []container) error {
	return atOnce(list, func(c container) error {
		now, err := p.inspect(ctx, c.id)
		if err != nil {
			return err
		}
		for _, n := range c.networks {
			if slices.Contains(now[0].networks, n) {
				continue
			}
			if _, err := p.docker(ctx, "network", "connect", "--alias", c.service, n, c.id); err != nil {
				return err
			}
		}
		return nil
	})
}

func atOnce(list []container, do func(container) error) error {
	errs := make(chan error)
	for _, c := range list {
		go func() { errs <- do(c) }()
	}
	var all error
	for range list {
		all = errors.Join(all, <-errs)
	}
	return all
}

func ids(list []container) (out []string) {
	for _, c := range list {
		out = append(out, c.id)
	}
	return out
}

func names(list []container) string {
	var out []string
	for _, c := range list {
		out = append(out, c.service)
	}
	return strings.Join(out, ", ")
}
