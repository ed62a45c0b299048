package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"

	"millwright/tools/outcome"
	"millwright/tools/stack"
)

// connect with the admin's kubeconfig. It names the container, which only containers can reach; the
// certificate holds for the published port of this host as well.
func connect(ctx context.Context, p *project, out *outcome.Progress) (*outcome.Cluster, error) {
	dir, err := os.MkdirTemp("", "composetest")
	if err != nil {
		return nil, fmt.Errorf("make directory: %w", err)
	}
	defer os.RemoveAll(dir)
	file := filepath.Join(dir, "kubeconfig")
	if err := p.copyKubeconfig(ctx, file); err != nil {
		return nil, err
	}
	cfg, err := stack.ClientConfig(file)
	if err != nil {
		return nil, fmt.Errorf("read kubeconfig: %w", err)
	}
	cfg.Host = fmt.Sprintf("https://127.0.0.1:%d", p.kubePort)
	return outcome.Connect(cfg, fmt.Sprintf("http://127.0.0.1:%d", p.ec2Port), out)
}
