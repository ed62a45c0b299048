package etcdlog

import (
	"context"
	"errors"
	"fmt"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
)

const (
	// Role of the users that may read and write the keys of a cluster.
	Role = "millwright"
	// RootUser is etcd's administrator, and the name of his role.
	RootUser = "root"
)

// EnsureUsers makes users without passwords, who prove themselves by the common names of their certificates,
// with a role for the keys of one cluster and nothing else, and has etcd demand a user from then on. The
// client must be root, or etcd must not demand users yet. What exists already stays; call it again after an
// error.
func EnsureUsers(ctx context.Context, client *clientv3.Client, cluster string, users []string) error {
	prefix := newKeys(cluster).prefix
	if _, err := client.RoleAdd(ctx, Role); err != nil && !errors.Is(err, rpctypes.ErrRoleAlreadyExist) {
		return fmt.Errorf("add role to etcd: %w", err)
	}
	write := clientv3.PermissionType(clientv3.PermReadWrite)
	if _, err := client.RoleGrantPermission(ctx, Role, prefix, clientv3.GetPrefixRangeEnd(prefix), write); err != nil {
		return fmt.Errorf("grant keys to role of etcd: %w", err)
	}
	for _, user := range users {
		if err := ensureUser(ctx, client, user, Role); err != nil {
			return err
		}
	}
	if err := ensureUser(ctx, client, RootUser, RootUser); err != nil {
		return err
	}
	if _, err := client.AuthEnable(ctx); err != nil {
		return fmt.Errorf("have etcd demand users: %w", err)
	}
	return nil
}

func ensureUser(ctx context.Context, client *clientv3.Client, user, role string) error {
	_, err := client.UserAddWithOptions(ctx, user, "", &clientv3.UserAddOptions{NoPassword: true})
	if err != nil && !errors.Is(err, rpctypes.ErrUserAlreadyExist) {
		return fmt.Errorf("add user %s to etcd: %w", user, err)
	}
	if _, err := client.UserGrantRole(ctx, user, role); err != nil {
		return fmt.Errorf("grant role to user %s of etcd: %w", user, err)
	}
	return nil
}
