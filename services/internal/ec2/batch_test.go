package ec2

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

func TestCallsOfOneMomentGoOutAsOne(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var mu sync.Mutex
		var asked [][]string
		m := NewBatchMetrics(nil)
		b := &batcher[[]Instance]{timeout: time.Minute, name: BatcherDescribeInstances, metrics: m, ask: func(_ context.Context, ids []string) ([]Instance, error) {
			mu.Lock()
			asked = append(asked, ids)
			mu.Unlock()
			var out []Instance
			for _, id := range ids {
				out = append(out, Instance{ID: id})
			}
			return out, nil
		}}
		var wg sync.WaitGroup
		for i := range 1200 {
			wg.Go(func() {
				id := fmt.Sprintf("i-%04d", i)
				all, err := b.do(t.Context(), []string{id})
				if got := only(all, []string{id}); err != nil || len(got) != 1 || got[0].ID != id {
					t.Errorf("%s: %v, %v", id, got, err)
				}
			})
		}
		wg.Wait()
		var sizes []int
		for _, ids := range asked {
			sizes = append(sizes, len(ids))
		}
		slices.Sort(sizes)
		if !slices.Equal(sizes, []int{200, 500, 500}) {
			t.Errorf("batches of %v", sizes)
		}
		size, waited := histogramOf(t, m.size.WithLabelValues("describe_instances")), histogramOf(t, m.seconds.WithLabelValues("describe_instances"))
		if size.GetSampleCount() != 3 || size.GetSampleSum() != 1200 || waited.GetSampleCount() != 3 || waited.GetSampleSum() != batchWindow.Seconds() {
			t.Errorf("batches measured: %v, waited: %v", size, waited) // two were full at once
		}
	})
}

func TestWhoGivesUpLeavesTheBatchAlone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := &batcher[int]{timeout: time.Minute, ask: func(ctx context.Context, ids []string) (int, error) {
			select {
			case <-time.After(10 * time.Second):
				return len(ids), nil
			case <-ctx.Done():
				return 0, ctx.Err()
			}
		}}
		short, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		var wg sync.WaitGroup
		wg.Go(func() {
			if _, err := b.do(short, []string{"a"}); !errors.Is(err, context.DeadlineExceeded) {
				t.Error(err)
			}
		})
		wg.Go(func() {
			if n, err := b.do(t.Context(), []string{"b"}); n != 2 || err != nil {
				t.Error(n, err)
			}
		})
		wg.Wait()
		if _, err := b.do(short, []string{"c"}); err == nil {
			t.Error("asked for somebody who is gone")
		}
	})
}

func TestAHungBatchEndsAndHoldsUpNoOther(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var calls atomic.Int32
		b := &batcher[int]{timeout: 30 * time.Second, ask: func(ctx context.Context, _ []string) (int, error) {
			n := int(calls.Add(1))
			if n == 1 {
				<-ctx.Done()
				return 0, ctx.Err()
			}
			return n, nil
		}}
		var wg sync.WaitGroup
		wg.Go(func() {
			if _, err := b.do(t.Context(), []string{"a"}); !errors.Is(err, context.DeadlineExceeded) {
				t.Error(err)
			}
		})
		time.Sleep(time.Second) // of the bubble's clock
		if n, err := b.do(t.Context(), []string{"b"}); n != 2 || err != nil {
			t.Error(n, err)
		}
		wg.Wait()
	})
}

// EC2 refuses a whole call for one id that it does not know, or that is none.
func TestOneIDThatIsNoneHidesNoOther(t *testing.T) {
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if err := r.ParseForm(); err != nil {
			t.Error(err)
		}
		var items string
		for i := 1; r.Form.Get(fmt.Sprintf("InstanceId.%d", i)) != ""; i++ {
			switch id := r.Form.Get(fmt.Sprintf("InstanceId.%d", i)); id {
			case "node-of-another-cloud":
				ec2Error(400, "InvalidInstanceID.Malformed", "no id")(w, r)
				return
			case "i-unknown":
				ec2Error(400, "InvalidInstanceID.NotFound", "no")(w, r)
				return
			default:
				items += "<item><instanceId>" + id + "</instanceId></item>"
			}
		}
		fmt.Fprintf(w, "<DescribeInstancesResponse><reservationSet><item><instancesSet>%s</instancesSet></item></reservationSet></DescribeInstancesResponse>", items)
	}))
	defer srv.Close()
	client := clientAt(t, srv.URL, http.DefaultTransport, time.Minute, nil)
	found, err := client.DescribeInstances(t.Context(), []string{"i-1", "node-of-another-cloud", "i-2", "i-unknown", "i-3"})
	if err != nil || len(found) != 3 {
		t.Errorf("found %v, %v", found, err)
	}
}

// EC2 refuses a whole call for one instance that is protected or unknown.
func TestOneInstanceThatMayNotBeTerminatedSavesNoOther(t *testing.T) {
	ended := map[string]bool{}
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if err := r.ParseForm(); err != nil {
			t.Error(err)
		}
		var ids []string
		for i := 1; r.Form.Get(fmt.Sprintf("InstanceId.%d", i)) != ""; i++ {
			ids = append(ids, r.Form.Get(fmt.Sprintf("InstanceId.%d", i)))
		}
		switch {
		case slices.Contains(ids, "i-protected"):
			ec2Error(400, "OperationNotPermitted", "protected")(w, r)
		case slices.Contains(ids, "i-unknown"):
			ec2Error(400, "InvalidInstanceID.NotFound", "no")(w, r)
		default:
			for _, id := range ids {
				ended[id] = true
			}
			fmt.Fprint(w, "<TerminateInstancesResponse/>")
		}
	}))
	defer srv.Close()
	client := clientAt(t, srv.URL, http.DefaultTransport, time.Minute, nil)
	var wg sync.WaitGroup
	for _, id := range []string{"i-1", "i-2", "i-protected", "i-3", "i-unknown", "i-4"} {
		wg.Go(func() {
			if err := client.TerminateInstances(t.Context(), []string{id}); (err != nil) != (id == "i-protected") {
				t.Errorf("%s: %v", id, err)
			}
		})
	}
	wg.Wait()
	if len(ended) != 4 {
		t.Errorf("ended: %v", ended)
	}
}
