package ledger

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"google.golang.org/protobuf/types/known/timestamppb"

	"millwright/planner/intern"
	"millwright/planner/ledger/failing"
	"millwright/planner/memory"
	"millwright/planner/parts"
	"millwright/planner/resource"
	wire "millwright/proto/checkpoint"
)

// Restore is ReadCheckpoint from bytes.
func Restore(data []byte) (*Ledger, error) { return ReadCheckpoint(bytes.NewReader(data)) }

// ReadCheckpoint returns the Ledger in a checkpoint of this program or of an earlier one; it folds on as the
// checkpointed one would have. It returns a complete Ledger or none.
func ReadCheckpoint(in io.Reader) (*Ledger, error) {
	l, err := read(bufio.NewReader(in))
	if err != nil {
		return nil, fmt.Errorf("decode ledger checkpoint: %w", err)
	}
	return l, nil
}

func read(in *bufio.Reader) (*Ledger, error) {
	first, err := in.Peek(1)
	if err != nil && !errors.Is(err, io.EOF) {
		return nil, err
	}
	if len(first) == 1 && first[0] == '{' {
		return readJSON(in)
	}
	r, err := parts.NewReader(in, CheckpointMagic)
	if err != nil {
		return nil, err
	}
	c := &checkpointReader{l: New("")}
	for {
		part := &wire.LedgerPart{}
		err := r.Next(part)
		if errors.Is(err, io.EOF) && c.headed {
			return c.l, nil
		}
		if err == nil {
			err = c.addPart(part)
		}
		if err != nil {
			return nil, err
		}
	}
}

// readJSON reads a checkpoint of an earlier program.
func readJSON(in io.Reader) (*Ledger, error) {
	var p plainState
	d := json.NewDecoder(in)
	if err := d.Decode(&p); err != nil {
		return nil, err
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return nil, errors.New("more after its end")
	}
	return p.ledger(), nil
}

// checkpointReader fills a Ledger with parts.
type checkpointReader struct {
	l      *Ledger
	headed bool
}

func (c *checkpointReader) addPart(p *wire.LedgerPart) error {
	if p.Head != nil {
		if err := c.head(p.Head); err != nil {
			return err
		}
	}
	if !c.headed {
		return errors.New("its head is missing")
	}
	c.small(p)
	for _, r := range p.Claims {
		if err := c.claim(r); err != nil {
			return fmt.Errorf("claim %s: %w", r.Name, err)
		}
	}
	for _, r := range p.Commands {
		x := &Command{ID: r.Id, Seq: r.Seq, State: CommandState(r.State), At: timeOf(r.At)}
		if err := json.Unmarshal(r.Started, &x.Started); err != nil {
			return fmt.Errorf("command %s: %w", r.Id, err)
		}
		c.l.commands.Set(c.l.owner, r.Id, x)
	}
	for _, r := range p.Proposals {
		x := &Proposal{ID: r.Id, Seq: r.Seq, State: ProposalState(r.State), At: timeOf(r.At)}
		if err := errors.Join(json.Unmarshal(r.Proposed, &x.Proposed), decode(r.Answer, &x.Answer)); err != nil {
			return fmt.Errorf("proposal %s: %w", r.Id, err)
		}
		c.l.proposals.Set(c.l.owner, r.Id, x)
	}
	for _, r := range p.Drains {
		x := &Drain{Seq: r.Seq, Tier: int(r.Tier), Drained: r.Drained, At: timeOf(r.At)}
		if err := json.Unmarshal(r.Started, &x.Started); err != nil {
			return fmt.Errorf("drain of %s: %w", r.Node, err)
		}
		for _, uid := range r.TierPods {
			if x.TierPods == nil {
				x.TierPods = make(map[types.UID]bool, len(r.TierPods))
			}
			x.TierPods[types.UID(uid)] = true
		}
		for _, uid := range r.HeldPods {
			x.TierPods[types.UID(uid)] = false
		}
		for _, surge := range r.Surges {
			x.Surges = with(x.Surges, types.UID(surge.PodUid), Surge{Seq: surge.Seq, At: timeOf(surge.At), Deployment: surge.Deployment, Until: timeOf(surge.Until)})
		}
		c.l.drains.Set(c.l.owner, r.Node, x)
	}
	return nil
}

func (c *checkpointReader) head(h *wire.LedgerHead) error {
	l := c.l
	l.logID, l.cluster, l.seq, l.lastTime, l.optionsSeq, l.options = h.LogId, h.Cluster, h.Seq, timeOf(h.LastTime), h.OptionsSeq, h.Options
	l.backoff = backoff{First: time.Duration(h.BackoffFirst), Max: time.Duration(h.BackoffMax)}
	l.positions, l.controlSeq, l.controlAt = h.Positions, h.ControlSeq, timeOf(h.ControlAt)
	for service, mode := range h.Modes {
		l.modes = with(l.modes, service, Mode(mode))
	}
	for _, id := range h.Adopted {
		l.adopted = with(l.adopted, id, true)
	}
	for _, f := range h.Failing {
		l.failing = with(l.failing, f.NodePool, failing.Count{Failures: int(f.Failures), Until: timeOf(f.Until)})
	}
	for _, w := range h.Rollouts {
		r := Rollout{Target: w.Target, Replaced: int(w.Replaced), At: timeOf(w.At)}
		if err := decode(w.Halted, &r.Halted); err != nil {
			return fmt.Errorf("roll-out of NodePool %s: %w", w.NodePool, err)
		}
		l.rollouts = with(l.rollouts, w.NodePool, r)
	}
	for _, x := range h.LostReturns {
		l.returns = with(l.returns, x.NodePool, LostReturns{Times: int(x.Times), At: timeOf(x.At)})
	}
	for _, x := range h.DrainOuts {
		l.drainOuts = with(l.drainOuts, x.Node, DrainOut{Seq: x.Seq, At: timeOf(x.At), Claim: x.Claim, ClaimUID: types.UID(x.ClaimUid),
			NodePool: x.NodePool, Policy: x.Policy, Ended: timeOf(x.Ended)})
	}
	var amounts []memory.Amount
	for _, x := range h.Memory {
		amounts = append(amounts, memory.Amount{Key: memory.Key{InstanceType: intern.String(x.InstanceType), Images: intern.String(x.Images)}, Bytes: x.Bytes, Seen: timeOf(x.Seen)})
	}
	l.memory = memory.Restore(amounts)
	c.headed = true
	return errors.Join(decode(h.Control, &l.control), decode(h.Drifts, &l.drifts))
}

// decode reads a payload; there is none if there are no bytes.
func decode[T any](b []byte, into **T) error {
	if len(b) == 0 {
		return nil
	}
	*into = new(T)
	return json.Unmarshal(b, *into)
}

// timeOf is the zero time for nil.
func timeOf(t *timestamppb.Timestamp) time.Time {
	if t == nil {
		return time.Time{}
	}
	return t.AsTime()
}

func (c *checkpointReader) claim(r *wire.Claim) error {
	x := &Claim{
		Name: r.Name, PlannedSeq: r.PlannedSeq, WidenedSeq: r.WidenedSeq, CommandID: r.CommandId, NodePool: intern.String(r.NodePool),
		State: ClaimState(intern.String(r.State)), UID: types.UID(r.Uid), Attempt: int(r.Attempt), OpenSeq: r.OpenSeq, OpenedAt: timeOf(r.OpenedAt),
		Node: r.Node, RegisteredAt: timeOf(r.RegisteredAt), TakenBy: r.TakenBy, RolledOut: r.RolledOut, RolledOutTo: r.RolledOutTo, KeptAt: timeOf(r.KeptAt), Returned: r.Returned, Inherited: r.Inherited, Terminated: r.Terminated,
		Capacity: vectorOf(r.Capacity),
	}
	for _, e := range r.Earlier {
		content := EarlierContent{Seq: e.Seq}
		if err := decode(e.Planned, &content.Planned); err != nil {
			return err
		}
		x.Earlier = append(x.Earlier, content)
	}
	err := errors.Join(decode(r.Planned, &x.Planned), decode(r.Open, &x.Open), decode(r.Failed, &x.Failed), decode(r.Instance, &x.Instance), decode(r.Doomed, &x.Doomed))
	if err != nil {
		return err
	}
	c.l.prune(x)
	c.l.claims.Set(c.l.owner, r.Name, x)
	return nil
}

func vectorOf(list []*wire.Amount) (v resource.Vector) {
	for _, a := range list {
		v.Set(corev1.ResourceName(intern.String(a.Resource)), a.Value)
	}
	return v
}

// small restores the tables whose rows need no decoding.
func (c *checkpointReader) small(p *wire.LedgerPart) {
	l := c.l
	for _, r := range p.Offerings {
		l.offerings.Set(l.owner, OfferingKey{intern.String(r.InstanceType), intern.String(r.Zone), intern.String(r.CapacityType), intern.String(r.PlacementGroup)}, UnavailableOffering{
			Until: timeOf(r.Until), Failures: int(r.Failures), Code: intern.String(r.Code), Seq: r.Seq,
		})
	}
	for _, r := range p.Reservations {
		x := reservation{Full: timeOf(r.Full)}
		for _, change := range r.Changes {
			x.Changes = append(x.Changes, reservationChange{timeOf(change.At), change.By})
		}
		l.reservations.Set(l.owner, r.Id, x)
	}
	for _, r := range p.Verdicts {
		uid := types.UID(r.PodUid)
		v := &Verdict{
			Seq: r.Seq, Node: r.Node, Claim: r.Claim, Digest: r.Digest, Since: timeOf(r.Since),
			Pod: PodRef{UID: uid, Namespace: intern.String(r.Namespace), Name: r.Name},
		}
		for _, e := range r.Excluded {
			v.Excluded = append(v.Excluded, ExcludedNode{e.Node, timeOf(e.Until)})
		}
		l.verdicts.Set(l.owner, uid, v)
	}
	for _, r := range p.Aggregates {
		l.aggregates.Set(l.owner, r.Name, r.Seq)
	}
	for _, r := range p.Subnets {
		l.subnets.Set(l.owner, r.Id, UnavailableOffering{Until: timeOf(r.Until), Failures: int(r.Failures), Code: intern.String(r.Code), Seq: r.Seq})
	}
	for _, r := range p.Evictions {
		x := Evicted{Command: r.Command, At: timeOf(r.At), Pods: int(r.Pods), Owners: r.Owners, To: r.To}
		l.evictions = with(l.evictions, r.NodePool, append(slices.Clone(l.evictions[r.NodePool]), x))
	}
	for _, r := range p.Shadow {
		l.shadow.Set(l.owner, r.Key, r.Digest)
	}
}
