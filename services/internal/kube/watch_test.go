package kube_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"

	"millwright/services/internal/kube"
)

func watchNothing(context.Context, metav1.ListOptions) (watch.Interface, error) {
	return watch.NewFake(), nil
}

// An API server that has not counted as far as a watch is to begin at was restored from a backup.
func TestAWatchOfARestoredAPIServer(t *testing.T) {
	down := errors.New("lists fail")
	none := func(err error) bool { return err == nil }
	for name, c := range map[string]struct {
		from, now string
		err       error
		want      func(error) bool
	}{
		"it has counted on":                    {from: "900", now: "1000", want: none},
		"nothing has happened":                 {from: "900", now: "900", want: none},
		"it was restored":                      {from: "1000", now: "900", want: apierrors.IsResourceExpired},
		"the watch begins with what there is":  {from: "", now: "900", want: none},
		"the watch begins with what is cached": {from: "0", now: "900", want: none},
		"its versions are no numbers":          {from: "1000", now: "x", want: none},
		"it lists nothing":                     {from: "900", err: down, want: none},
	} {
		t.Run(name, func(t *testing.T) {
			list := func(_ context.Context, o metav1.ListOptions) (runtime.Object, error) {
				if o.Limit != 1 || o.ResourceVersion != "" {
					t.Errorf("listed with %+v", o)
				}
				return &corev1.PodList{ListMeta: metav1.ListMeta{ResourceVersion: c.now}}, c.err
			}
			seconds := int64(300)
			begin := func(ctx context.Context, o metav1.ListOptions) (watch.Interface, error) {
				if unchecked := c.err != nil; o.ResourceVersion != c.from || (*o.TimeoutSeconds < seconds) != unchecked {
					t.Errorf("watches with %+v", o)
				}
				return watchNothing(ctx, o)
			}
			if _, err := kube.Watch(t.Context(), list, begin, metav1.ListOptions{ResourceVersion: c.from, TimeoutSeconds: &seconds}); !c.want(err) {
				t.Errorf("got %v", err)
			}
		})
	}
}

// A watch that nobody ends in time, and on which nothing comes, is ended.
func TestAWatchThatHangs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		seconds, began := int64(300), time.Now()
		stream, err := kube.Watch(t.Context(), nil, watchNothing, metav1.ListOptions{TimeoutSeconds: &seconds})
		if err != nil {
			t.Fatal(err)
		}
		select {
		case <-stream.ResultChan():
		case <-time.After(time.Hour):
		}
		if took := time.Since(began); took < 5*time.Minute || took > 6*time.Minute {
			t.Errorf("ended after %s", took)
		}
	})
}
