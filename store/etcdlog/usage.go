package etcdlog

import (
	"context"
	"errors"
	"fmt"
	"time"

	"go.etcd.io/etcd/api/v3/etcdserverpb"
	clientv3 "go.etcd.io/etcd/client/v3"

	"millwright/store"
)

// quotaDefault is etcd's own default. It is assumed of servers that do not report their quota, those before
// 3.6, and of those that have none.
const quotaDefault = 2 << 30

const (
	// statusTimeout bounds a request to one member, which may be unreachable.
	statusTimeout = 3 * time.Second
	// defragmentTimeout bounds the work of one member: some GiB at a second each.
	defragmentTimeout = time.Minute
)

// Usage is that of the fullest member that answers.
func (l *Log) Usage(ctx context.Context) (store.Usage, error) {
	var most store.Usage
	var errs []error
	for _, endpoint := range l.members() {
		status, err := l.status(ctx, endpoint)
		if err != nil {
			errs = append(errs, err)
			continue
		}
		u := usageOf(status)
		if most.QuotaBytes == 0 || u.Level() > most.Level() {
			most = u
		}
	}
	if most.QuotaBytes == 0 {
		return most, errors.Join(errs...)
	}
	alarms, err := l.cfg.Client.AlarmList(ctx)
	if err != nil {
		return most, fmt.Errorf("list alarms of etcd: %w", err)
	}
	for _, a := range alarms.Alarms {
		most.NoSpace = most.NoSpace || a.Alarm == etcdserverpb.AlarmType_NOSPACE
	}
	return most, nil
}

func (l *Log) status(ctx context.Context, endpoint string) (*clientv3.StatusResponse, error) {
	ctx, cancel := context.WithTimeout(ctx, statusTimeout)
	defer cancel()
	status, err := l.cfg.Client.Status(ctx, endpoint)
	if err != nil {
		return nil, fmt.Errorf("status of etcd %s: %w", endpoint, err)
	}
	return status, nil
}

func usageOf(s *clientv3.StatusResponse) store.Usage {
	u := store.Usage{QuotaBytes: s.DbSizeQuota, FileBytes: s.DbSize, UsedBytes: s.DbSizeInUse}
	if u.QuotaBytes <= 0 {
		u.QuotaBytes, u.Assumed = quotaDefault, true
	}
	if u.UsedBytes == 0 {
		u.UsedBytes = u.FileBytes
	}
	return u
}

// members are the endpoints of the client; one without a name for a server in this process.
func (l *Log) members() []string {
	if endpoints := l.cfg.Client.Endpoints(); len(endpoints) > 0 {
		return endpoints
	}
	return []string{""}
}

// Defragment releases the free pages of the database files, one member after the other; one that fails does
// not hold up the others. A member answers nothing meanwhile, for about a second for each GiB in use.
func (l *Log) Defragment(ctx context.Context) error {
	var errs []error
	for _, endpoint := range l.members() {
		errs = append(errs, l.defragment(ctx, endpoint))
	}
	return errors.Join(errs...)
}

func (l *Log) defragment(ctx context.Context, endpoint string) error {
	if _, err := l.status(ctx, endpoint); err != nil {
		return err // otherwise the request would wait for an unreachable member
	}
	ctx, cancel := context.WithTimeout(ctx, defragmentTimeout)
	defer cancel()
	if _, err := l.cfg.Client.Defragment(ctx, endpoint); err != nil {
		return fmt.Errorf("defragment etcd %s: %w", endpoint, err)
	}
	return nil
}

// Disarm clears the alarm by which etcd has refused writes since it was full.
func (l *Log) Disarm(ctx context.Context) error {
	alarms, err := l.cfg.Client.AlarmList(ctx)
	if err != nil {
		return fmt.Errorf("list alarms of etcd: %w", err)
	}
	for _, a := range alarms.Alarms {
		if a.Alarm != etcdserverpb.AlarmType_NOSPACE {
			continue
		}
		if _, err := l.cfg.Client.AlarmDisarm(ctx, (*clientv3.AlarmMember)(a)); err != nil {
			return fmt.Errorf("disarm etcd: %w", err)
		}
	}
	return nil
}
