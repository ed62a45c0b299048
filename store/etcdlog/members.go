package etcdlog

import (
	"context"
	"fmt"

	clientv3 "go.etcd.io/etcd/client/v3"
)

// Members is how many members vote in an etcd, whether they are there or away.
func Members(ctx context.Context, client *clientv3.Client) (int, error) {
	list, err := client.MemberList(ctx)
	if err != nil {
		return 0, fmt.Errorf("list members of etcd: %w", err)
	}
	voting := 0
	for _, m := range list.Members {
		if !m.IsLearner {
			voting++
		}
	}
	return voting, nil
}
