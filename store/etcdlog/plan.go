package etcdlog

import (
	"fmt"
	"maps"
	"slices"
	"strconv"

	clientv3 "go.etcd.io/etcd/client/v3"

	"millwright/store"
	"millwright/store/record"
)

// Bounds of one transaction, inside etcd's defaults of 128 operations per level and 1.5 MiB per request.
const (
	groupRecordsMax    = 512
	groupBytesMax      = 1 << 20
	groupAggregatesMax = 2 * store.MaxAggregates
	groupLeasesMax     = 16
	// opsMax is what etcd accepts in a transaction and those nested in it: the longest list of each level
	// counts.
	opsMax = 128
	// opsFlat is how many operations are in a transaction directly, or in one nested in it.
	opsFlat = 48
	// assumedMax is what is left for comparisons, besides leases, head and turn. With more, they are read
	// first, while others wait for their turn.
	assumedMax = opsMax - opsFlat - groupLeasesMax - 2
)

// plan is one transaction: which drafts become records, and which are refused if it succeeds.
type plan struct {
	from     *view
	requests []*request
	members  []member
	refused  []refusal
	// assumed are aggregates that are not in the view and believed to be where the first draft expects them;
	// the transaction compares them.
	assumed map[string]uint64
	// advanced are the aggregates that move, to 0 if they are retired; head and place are what follows the
	// last record. switches are set.
	advanced map[string]uint64
	switches map[string]string
	head     string
	place    record.Place
	leases   []store.Lease
}

type member struct {
	request *request
	sealed  record.Stored
	data    string
}

type refusal struct {
	request *request
	err     error
}

// newPlan makes records of requests, in order.
func newPlan(v *view, requests []*request) *plan {
	p := &plan{from: v, requests: requests, assumed: map[string]uint64{}, advanced: map[string]uint64{},
		switches: map[string]string{}, place: v.place, leases: leasesOf(requests)}
	for _, r := range requests {
		p.addRequest(r)
	}
	p.head = formatPlace(p.place)
	return p
}

// window is how many of the pending requests fit into one transaction; at least the first does.
func window(pending []*request) []*request {
	bytes, aggregates := 0, 0
	var leases []store.Lease
	for i, r := range pending {
		d := r.draft.Draft
		bytes += r.draft.Bytes() + nameBytes(d)
		aggregates += len(d.Expects) + len(d.Advances) + len(d.Retires)
		if d.Lease != (store.Lease{}) && !slices.Contains(leases, d.Lease) {
			leases = append(leases, d.Lease)
		}
		full := i == groupRecordsMax || bytes > groupBytesMax || aggregates > groupAggregatesMax || len(leases) > groupLeasesMax
		if i > 0 && full {
			return pending[:i]
		}
	}
	return pending
}

// nameBytes is what the names of aggregates add to a transaction besides the record.
func nameBytes(d store.Draft) int {
	n := 0
	for _, name := range slices.Concat(d.Advances, d.Retires) {
		n += len(name)
	}
	for name := range d.Expects {
		n += len(name)
	}
	return n
}

func (p *plan) addRequest(r *request) {
	d := r.draft.Draft
	if err := p.conflict(d.Expects); err != nil {
		p.refused = append(p.refused, refusal{r, err})
		return
	}
	sealed := r.draft.Seal(p.place)
	data, err := record.Marshal(sealed)
	if err != nil {
		p.refused = append(p.refused, refusal{r, err})
		return
	}
	p.members = append(p.members, member{request: r, sealed: sealed, data: string(data)})
	p.place = sealed.Place()
	for _, name := range d.Advances {
		p.advanced[name] = sealed.Seq
	}
	for _, name := range d.Retires {
		p.advanced[name] = 0
	}
	maps.Copy(p.switches, d.Switches)
}

// conflict names an aggregate that is not where it is expected, after the members before.
func (p *plan) conflict(expects map[string]uint64) error {
	var unknown []string
	for name, want := range expects {
		have, known := p.at(name)
		if !known {
			unknown = append(unknown, name)
			continue
		}
		if have != want {
			return fmt.Errorf("aggregate %s at %d, expected %d: %w", name, have, want, store.ErrConflict)
		}
	}
	for _, name := range unknown {
		p.assumed[name] = expects[name]
	}
	return nil
}

// at is the sequence of an aggregate, if that is known or assumed.
func (p *plan) at(name string) (uint64, bool) {
	for _, m := range []map[string]uint64{p.advanced, p.assumed, p.from.aggregates} {
		if seq, ok := m[name]; ok {
			return seq, true
		}
	}
	return 0, false
}

// final reports whether the refusals hold without a transaction: everything was read after they were
// requested.
func (p *plan) final() bool {
	for _, r := range p.refused {
		if p.from.asOf.Before(r.request.at) {
			return false
		}
	}
	return true
}

func (p *plan) compares(k keys) []clientv3.Cmp {
	out := []clientv3.Cmp{clientv3.Compare(clientv3.Value(k.head()), "=", p.from.head)}
	for _, l := range p.leases {
		out = append(out, clientv3.Compare(clientv3.CreateRevision(l.Key), "=", l.Revision))
	}
	for _, name := range slices.Sorted(maps.Keys(p.assumed)) {
		if seq := p.assumed[name]; seq > 0 {
			out = append(out, clientv3.Compare(clientv3.Value(k.stream(name)), "=", strconv.FormatUint(seq, 10)))
		} else {
			out = append(out, clientv3.Compare(clientv3.CreateRevision(k.stream(name)), "=", 0))
		}
	}
	return out
}

func (p *plan) puts(k keys) []clientv3.Op {
	out := []clientv3.Op{clientv3.OpPut(k.head(), p.head)}
	for _, m := range p.members {
		out = append(out, clientv3.OpPut(k.record(m.sealed.Seq), m.data))
	}
	for _, name := range slices.Sorted(maps.Keys(p.advanced)) {
		if seq := p.advanced[name]; seq > 0 {
			out = append(out, clientv3.OpPut(k.stream(name), strconv.FormatUint(seq, 10)))
		} else {
			out = append(out, clientv3.OpDelete(k.stream(name)))
		}
	}
	for _, name := range slices.Sorted(maps.Keys(p.switches)) {
		out = append(out, clientv3.OpPut(k.control(name), p.switches[name]))
	}
	return nest(out)
}

// gets requests the head and everything that names and leases depend on.
func gets(k keys, names []string, leases []store.Lease) []clientv3.Op {
	out := []clientv3.Op{clientv3.OpGet(k.head())}
	for _, name := range names {
		out = append(out, clientv3.OpGet(k.stream(name)))
	}
	for _, l := range leases {
		out = append(out, clientv3.OpGet(l.Key, clientv3.WithKeysOnly()))
	}
	return out
}

// nest puts many operations into transactions inside the transaction: etcd limits them per level.
func nest(ops []clientv3.Op) []clientv3.Op {
	if len(ops) <= opsFlat {
		return ops
	}
	var out []clientv3.Op
	for chunk := range slices.Chunk(ops, opsFlat) {
		out = append(out, clientv3.OpTxn(nil, chunk, nil))
	}
	return out
}

// expected are the aggregates that requests expect, sorted.
func expected(pending []*request) []string {
	names := map[string]bool{}
	for _, r := range pending {
		for name := range r.draft.Draft.Expects {
			names[name] = true
		}
	}
	return slices.Sorted(maps.Keys(names))
}

// leasesOf are the distinct leases of requests.
func leasesOf(pending []*request) []store.Lease {
	var out []store.Lease
	for _, r := range pending {
		if l := r.draft.Draft.Lease; l != (store.Lease{}) && !slices.Contains(out, l) {
			out = append(out, l)
		}
	}
	return out
}
