package etcdlog

import (
	"fmt"
	"maps"
	"strconv"
	"time"

	"go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/mvccpb"

	"millwright/store"
	"millwright/store/record"
)

// view is what the committer knows of the log at one revision of etcd.
type view struct {
	// head is the raw value of the head key, which a transaction compares.
	head  string
	place record.Place
	// aggregates holds those that are known, 0 for one that was never advanced.
	aggregates map[string]uint64
	// created is the create revision of each leader key that was requested, 0 if there is none.
	created map[string]int64
	// asOf: the view was true at some moment after it.
	asOf time.Time
}

// found indexes the answers to gets by key, those in nested transactions too.
type found map[string]*mvccpb.KeyValue

func newFound(responses []*etcdserverpb.ResponseOp) found {
	f := found{}
	f.addResponses(responses)
	return f
}

func (f found) addResponses(responses []*etcdserverpb.ResponseOp) {
	for _, r := range responses {
		for _, kv := range r.GetResponseRange().GetKvs() {
			f[string(kv.Key)] = kv
		}
		f.addResponses(r.GetResponseTxn().GetResponses())
	}
}

// newView builds a view from what was found under the keys of the head, the aggregates and the leases.
func newView(k keys, f found, names []string, leases []store.Lease, asOf time.Time) (*view, error) {
	kv := f[k.head()]
	if kv == nil {
		return nil, fmt.Errorf("head is missing: %w", store.ErrCorrupt)
	}
	place, err := parsePlace(string(kv.Value))
	if err != nil {
		return nil, err
	}
	v := &view{head: string(kv.Value), place: place, asOf: asOf, aggregates: map[string]uint64{}, created: map[string]int64{}}
	for _, name := range names {
		if v.aggregates[name], err = parseSequence(f[k.stream(name)]); err != nil {
			return nil, err
		}
	}
	for _, lease := range leases {
		v.created[lease.Key] = 0
		if kv := f[lease.Key]; kv != nil {
			v.created[lease.Key] = kv.CreateRevision
		}
	}
	return v, nil
}

// parseSequence reads the value of a stream key; 0 without one.
func parseSequence(kv *mvccpb.KeyValue) (uint64, error) {
	if kv == nil {
		return 0, nil
	}
	seq, err := strconv.ParseUint(string(kv.Value), 10, 64)
	if err != nil {
		return 0, fmt.Errorf("aggregate %q holds %q: %w", kv.Key, kv.Value, store.ErrCorrupt)
	}
	return seq, nil
}

// aggregatesMax bounds what a view remembers; beyond it, it forgets all.
const aggregatesMax = 20000

// viewOfHead knows nothing but the head.
func viewOfHead(head string) (*view, error) {
	place, err := parsePlace(head)
	if err != nil {
		return nil, err
	}
	return &view{head: head, place: place, aggregates: map[string]uint64{}}, nil
}

// after is the view once p is committed.
func (v *view) after(p *plan, asOf time.Time) *view {
	v.head, v.place, v.asOf = p.head, p.place, asOf
	maps.Copy(v.aggregates, p.assumed)
	maps.Copy(v.aggregates, p.advanced)
	if len(v.aggregates) > aggregatesMax {
		v.aggregates = map[string]uint64{}
	}
	return v
}

// unknown is how many of names are not known.
func (v *view) unknown(names []string) int {
	n := 0
	for _, name := range names {
		if _, ok := v.aggregates[name]; !ok {
			n++
		}
	}
	return n
}
