package kube

import (
	"context"
	"fmt"
	"strconv"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
)

const (
	// pageTimeout bounds the request before a watch.
	pageTimeout = 10 * time.Second
	// uncheckedSeconds is how long a watch may last before which no page could be had.
	uncheckedSeconds = 30
	// overdue is how much later than it was asked to the API server may end a watch.
	overdue = 30 * time.Second
)

// List and watch requests of one kind.
type (
	ListFunc  = func(context.Context, metav1.ListOptions) (runtime.Object, error)
	WatchFunc = func(context.Context, metav1.ListOptions) (watch.Interface, error)
)

// Watch begins a watch for a reflector, which lists anew after an error. An API server that has not counted
// as far as the resourceVersion that the watch begins at was restored from a backup of its etcd: it would
// accept the watch all the same, and send nothing of what happens until it has counted that far again; the
// error is Expired. If lists fail, the watch begins all the same, and is soon begun again. A watch that the
// API server, or what is before it, does not end in time is ended here: for all we know it is silent because
// it hangs.
func Watch(ctx context.Context, list ListFunc, next WatchFunc, o metav1.ListOptions) (watch.Interface, error) {
	if err := checkRewound(ctx, list, o); apierrors.IsResourceExpired(err) {
		return nil, err
	} else if err != nil {
		seconds := int64(uncheckedSeconds)
		o.TimeoutSeconds = &seconds
	}
	stream, err := next(ctx, o)
	if err == nil && o.TimeoutSeconds != nil {
		time.AfterFunc(time.Duration(*o.TimeoutSeconds)*time.Second+overdue, stream.Stop)
	}
	return stream, err
}

func checkRewound(ctx context.Context, list ListFunc, o metav1.ListOptions) error {
	from, err := strconv.ParseUint(o.ResourceVersion, 10, 64)
	if err != nil || from == 0 || o.SendInitialEvents != nil {
		return nil //nolint:nilerr // it begins with what there is
	}
	ctx, cancel := context.WithTimeout(ctx, pageTimeout)
	defer cancel()
	page, err := list(ctx, metav1.ListOptions{Limit: 1})
	if err != nil {
		return err
	}
	m, err := meta.ListAccessor(page)
	if err != nil {
		return fmt.Errorf("read list: %w", err)
	}
	now, err := strconv.ParseUint(m.GetResourceVersion(), 10, 64)
	if err != nil || now >= from {
		return nil //nolint:nilerr // versions that are no numbers cannot be compared
	}
	return apierrors.NewResourceExpired(fmt.Sprintf("the API server was restored from a backup: it is at resourceVersion %d, and was at %d before", now, from))
}
