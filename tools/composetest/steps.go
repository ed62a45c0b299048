package main

import (
	"context"
	"fmt"
	"os"
	"regexp"
	"strings"

	"millwright/tools/outcome"
	"millwright/tools/stack"
)

// single are the containers of docker-compose.yaml that keep running; each is crashed once.
var single = append([]string{"etcd", "nats", "cluster", "ec2sim", "prometheus"}, stack.Services...)

// test is one run on one project.
type test struct {
	project *project
	out     *outcome.Progress
	cluster *outcome.Cluster
	// kinds are the containers that keep running.
	kinds []string
}

func (t *test) each(ctx context.Context, steps ...func(context.Context) error) error {
	for _, step := range steps {
		if err := step(ctx); err != nil {
			return err
		}
	}
	return nil
}

// up starts the stack and waits until all of it is healthy.
func (t *test) up(ctx context.Context) error {
	t.out.Say("start project %s", t.project.name)
	if _, err := t.project.compose(ctx, "up", "--detach"); err != nil {
		return err
	}
	if err := t.allHealthy(ctx); err != nil {
		return err
	}
	err := t.out.Await(ctx, "the end of setup", func(ctx context.Context) string {
		c, err := t.project.container(ctx, "setup")
		switch {
		case err != nil:
			return err.Error()
		case c.status != "exited" || c.exit != 0:
			return fmt.Sprintf("it is %s, exit code %d", c.status, c.exit)
		}
		return ""
	})
	if err != nil {
		return err
	}
	t.out.Say("all containers are healthy")
	t.cluster, err = connect(ctx, t.project, t.out)
	return err
}

// allHealthy waits until all containers run and are healthy.
func (t *test) allHealthy(ctx context.Context) error {
	return t.out.Await(ctx, "all containers to be healthy", func(ctx context.Context) string {
		found, err := t.project.labelled(ctx)
		if err != nil {
			return err.Error()
		}
		by := map[string]container{}
		for _, c := range found {
			by[c.service] = c
		}
		for _, kind := range t.kinds {
			if c := by[kind]; c.status != "running" || c.health != "healthy" {
				return fmt.Sprintf("%s is %q, %q", kind, c.status, c.health)
			}
		}
		return ""
	})
}

// healthy waits until the container of a kind runs, is healthy and was restarted this number of times.
func (t *test) healthy(ctx context.Context, kind string, restarts int) error {
	return t.out.Await(ctx, kind+" to be healthy", func(ctx context.Context) string {
		c, err := t.project.container(ctx, kind)
		switch {
		case err != nil:
			return err.Error()
		case c.status != "running" || c.health != "healthy":
			return fmt.Sprintf("it is %s, %s", c.status, c.health)
		case c.restarts < restarts:
			return fmt.Sprintf("it was restarted %d times", c.restarts)
		}
		return ""
	})
}

// workload scales the demo's Deployments up from nothing.
func (t *test) workload(ctx context.Context) error {
	if err := t.cluster.Scale(ctx, 3, 2); err != nil {
		return err
	}
	return t.cluster.Settled(ctx, 3, 2)
}

// crashes kills one container of each kind while pods come and go. Each must come back by its restart policy.
func (t *test) crashes(ctx context.Context) error {
	sizes := []int{14, 2, 20, 5, 26, 1, 17}
	for i, kind := range t.kinds {
		if err := t.healthy(ctx, kind, 0); err != nil {
			return err
		}
		before, err := t.project.container(ctx, kind)
		if err != nil {
			return err
		}
		t.out.Say("crash %s", kind)
		if err := t.cluster.Scale(ctx, sizes[i%len(sizes)], i%3); err != nil {
			return err
		}
		if err := t.project.crash(ctx, before); err != nil {
			return err
		}
		if err := t.healthy(ctx, kind, before.restarts+1); err != nil {
			return err
		}
	}
	return t.cameBack(ctx)
}

// cameBack checks all containers after the last crash. A service may end when others are away, and is
// restarted then, but waiting for them is better: restarts beyond its own crash are shown.
func (t *test) cameBack(ctx context.Context) error {
	var more []string
	for _, kind := range t.kinds {
		if err := t.healthy(ctx, kind, 1); err != nil {
			return err
		}
		c, err := t.project.container(ctx, kind)
		if err != nil {
			return err
		}
		if c.restarts > 1 {
			more = append(more, fmt.Sprintf("%s %d times", kind, c.restarts))
		}
	}
	t.out.Say("all containers came back")
	if len(more) > 0 {
		t.out.Say("restarted more than once: %s", strings.Join(more, ", "))
	}
	return nil
}

// converged checks that after all the crashes pods get their nodes. A second setup, as a second `up` of the
// stack starts it, must not touch what runs.
func (t *test) converged(ctx context.Context) error {
	if err := t.cluster.Scale(ctx, 12, 4); err != nil {
		return err
	}
	if _, err := t.project.compose(ctx, "run", "--rm", "-T", "setup"); err != nil {
		return err
	}
	return t.cluster.Settled(ctx, 12, 4)
}

// toZero scales to zero and waits until nothing is left: no NodeClaim, no node, no live instance.
func (t *test) toZero(ctx context.Context) error {
	if err := t.cluster.Scale(ctx, 0, 0); err != nil {
		return err
	}
	return t.cluster.Empty(ctx)
}

var replayed = regexp.MustCompile(`(\d+) decisions replayed, 0 divergences`)

// record checks what was done and written: one launch per NodeClaim, the hash chain, and replay.
func (t *test) record(ctx context.Context) error {
	if err := t.cluster.LaunchedOnce(ctx); err != nil {
		return err
	}
	for _, args := range [][]string{{"verify"}, {"replay"}} {
		out, err := t.project.millctl(ctx, args...)
		fmt.Fprint(os.Stdout, indent(out))
		if err != nil {
			return err
		}
		if m := replayed.FindStringSubmatch(out); args[0] == "replay" && (m == nil || m[1] == "0") {
			return fmt.Errorf("replay: no decisions were replayed")
		}
	}
	return nil
}

func indent(s string) string {
	if s = strings.TrimRight(s, "\n"); s == "" {
		return ""
	}
	return "        " + strings.ReplaceAll(s, "\n", "\n        ") + "\n"
}
