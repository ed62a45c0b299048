package view

import (
	"cmp"
	"context"
	"strings"
	"time"

	"millwright/planner/ledger"
	"millwright/planner/world"
	"millwright/store"
	"millwright/store/audit"
)

// What the log last said of a pod.
const (
	VerdictNone    = "none"
	VerdictPlaced  = "placed"
	VerdictRefused = "refused"
)

// Pod that has no node.
type Pod struct {
	Namespace string    `json:"namespace"`
	Name      string    `json:"name"`
	Created   time.Time `json:"created"`
	Requests  Amounts   `json:"requests"`
	// Verdict is none (nothing was decided yet), placed (it waits for Node or NodeClaim) or refused.
	Verdict   string    `json:"verdict"`
	Node      string    `json:"node,omitempty"`
	NodeClaim string    `json:"nodeClaim,omitempty"`
	Since     time.Time `json:"since,omitzero"`
	// Record that says so.
	Record uint64 `json:"record,omitempty"`
	// Reasons of a refusal, one per NodePool. They are missing if the record cannot be read any more.
	Reasons []ledger.Refusal `json:"reasons,omitempty"`
	// Scheduler is kube-scheduler's own message.
	Scheduler string `json:"scheduler,omitempty"`
}

func podOf(p *world.Pod, v *ledger.Verdict) Pod {
	x := Pod{Namespace: p.Namespace, Name: p.Name, Created: time.Unix(0, p.Created).UTC(), Requests: amounts(p.Class.Requests), Verdict: VerdictNone,
		Scheduler: p.UnschedulableMessage}
	if v == nil {
		return x
	}
	x.Record, x.Since, x.Node, x.NodeClaim, x.Verdict = v.Seq, v.Since.UTC(), v.Node, v.Claim, VerdictRefused
	if v.Node != "" || v.Claim != "" {
		x.Verdict = VerdictPlaced
	}
	return x
}

const (
	// refusalsMax bounds the records that are kept for their refusals.
	refusalsMax = 64
	readTimeout = 5 * time.Second
)

// Pending returns pods without a node by namespace and name after another one, NAMESPACE/NAME or "", at most
// limit, with the reasons of those that were refused; and how many there are in all.
func (v *View) Pending(ctx context.Context, after string, limit int) (list []Pod, more bool, total int, err error) {
	now, err := v.Now()
	if err != nil {
		return nil, false, 0, err
	}
	list = []Pod{}
	namespace, name, _ := strings.Cut(after, "/")
	for i, p := range now.Pending {
		if cmp.Or(cmp.Compare(p.Namespace, namespace), cmp.Compare(p.Name, name)) <= 0 {
			continue
		}
		if len(list) == limit {
			return list, true, len(now.Pending), nil
		}
		if p.Verdict == VerdictRefused {
			p.Reasons = v.reasons(ctx, now.verdicts[i])
		}
		list = append(list, p)
	}
	return list, false, len(now.Pending), nil
}

// reasons of a refusal; nil if the record that has them cannot be read.
func (v *View) reasons(ctx context.Context, verdict *ledger.Verdict) []ledger.Refusal {
	p := v.refusalRecord(ctx, verdict.Seq)
	if p == nil {
		return nil
	}
	for _, r := range p.Refused {
		for _, pod := range r.Pods {
			if pod.UID == verdict.Pod.UID {
				return r.Reasons
			}
		}
	}
	return nil
}

func (v *View) refusalRecord(ctx context.Context, seq uint64) *ledger.ProvisioningPlanned {
	v.mu.Lock()
	p, known := v.refusals[seq]
	v.mu.Unlock()
	if known {
		return p
	}
	e, err := v.entry(ctx, seq)
	if err != nil {
		return nil
	}
	p, _ = e.Payload.(*ledger.ProvisioningPlanned)
	v.mu.Lock()
	defer v.mu.Unlock()
	if len(v.refusals) >= refusalsMax {
		clear(v.refusals)
	}
	v.refusals[seq] = p
	return p
}

// entry reads one record.
func (v *View) entry(ctx context.Context, seq uint64) (ledger.Entry, error) {
	rec, err := v.record(ctx, seq)
	if err != nil {
		return ledger.Entry{}, err
	}
	return audit.Decode(rec)
}

func (v *View) record(ctx context.Context, seq uint64) (store.Record, error) {
	ctx, cancel := context.WithTimeout(ctx, readTimeout)
	defer cancel()
	list, err := v.cfg.Log.Read(ctx, seq, 1)
	switch {
	case err != nil:
		return store.Record{}, err
	case len(list) == 0:
		return store.Record{}, ErrNotFound
	}
	return list[0], nil
}
