package embedded

import (
	"context"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.etcd.io/etcd/server/v3/etcdserver"
)

// maintenance defragments the server of this process. (That of the in-process client wants to notify a health
// service, which it was not given.)
type maintenance struct {
	clientv3.Maintenance
	server *etcdserver.EtcdServer
}

func (m maintenance) Defragment(context.Context, string) (*clientv3.DefragmentResponse, error) {
	return &clientv3.DefragmentResponse{}, m.server.Backend().Defrag()
}
