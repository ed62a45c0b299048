package pseudonyms

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"strings"

	"github.com/klauspost/compress/zstd"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"millwright/events"
	"millwright/planner/ledger"
	"millwright/planner/parts"
	"millwright/planner/world"
	wire "millwright/proto/checkpoint"
	"millwright/store/audit"
	"millwright/store/audit/recording"
)

// readCheckpoints restores those that the bundle begins with, so that they can be written as parts again,
// whatever program wrote them.
func (s *source) readCheckpoints(ctx context.Context) error {
	whole := s.in.Bundle()
	s.world = world.New()
	s.world.SetIncarnation(s.in.Manifest.Stream.Incarnation)
	if name := s.in.Manifest.World; name != "" {
		w, err := events.ReadCheckpoint(ctx, whole.Blobs(), events.Checkpoint{Name: name}, world.ReadCheckpoint)
		if err != nil {
			return err
		}
		s.world = w
	}
	if s.in.Manifest.First <= 1 {
		return nil
	}
	for _, r := range s.records {
		c, ok := r.entry.Payload.(*ledger.LedgerCheckpoint)
		if !ok || r.Seq != s.in.Manifest.Checkpoint {
			continue
		}
		l, err := audit.DecodeCheckpoint(*c, s.in.LogBlobs[c.Blob])
		if err != nil {
			return err
		}
		s.ledger, s.logID = l, l.LogID()
		return nil
	}
	return fmt.Errorf("its records begin with %d and no checkpoint leads there", s.in.Manifest.First)
}

// worlds are the World that the messages lead on from, and the renamed one, which is written.
func (b *renaming) worlds(out *recording.Contents) (was, is *world.World, err error) {
	incarnation := out.Manifest.Stream.Incarnation
	is = world.New()
	is.SetIncarnation(incarnation)
	if b.in.Manifest.World == "" {
		was = world.New()
		was.SetIncarnation(b.in.Manifest.Stream.Incarnation)
		return was, is, nil
	}
	data, err := b.source.world.Checkpoint()
	if err != nil {
		return nil, nil, err
	}
	if was, err = world.Restore(data); err != nil {
		return nil, nil, err
	}
	var renamed bytes.Buffer
	empty := func() *wire.WorldPart { return &wire.WorldPart{} }
	if err := parts.Rewrite(bytes.NewReader(data), &renamed, world.CheckpointMagic, empty, b.worldPart); err != nil {
		return nil, nil, fmt.Errorf("checkpoint of the world: %w", err)
	}
	if b.collecting() {
		return was, is, nil
	}
	if is, err = world.Restore(renamed.Bytes()); err != nil {
		return nil, nil, err
	}
	b.digests[was.Position()] = is.Position().Digest
	out.Manifest.World = events.CheckpointName(incarnation, is.Position().Sequence)
	out.StreamBlobs[out.Manifest.World], err = compressed(is.WriteCheckpoint)
	return was, is, err
}

func compressed(write func(io.Writer) error) ([]byte, error) {
	var blob bytes.Buffer
	z, err := zstd.NewWriter(&blob, zstd.WithEncoderConcurrency(1), zstd.WithWindowSize(1<<20))
	if err != nil {
		return nil, err
	}
	if err := write(z); err != nil {
		return nil, err
	}
	err = z.Close()
	return blob.Bytes(), err
}

// startDigest begins the digest of the renamed messages after a checkpoint.
const startDigest = 1

func (b *renaming) worldPart(p *wire.WorldPart) error {
	if p.Head != nil {
		p.Head.Incarnation, p.Head.Digest = b.name(p.Head.Incarnation), startDigest
	}
	for _, c := range p.PodClasses {
		if err := b.podClass(c); err != nil {
			return err
		}
	}
	for _, n := range p.Nodes {
		n.Name, n.Uid, n.Version = b.name(n.Name), b.name(n.Uid), b.publicOr(n.Version)
		if err := b.stored(events.KindNode, &n.Object); err != nil {
			return err
		}
	}
	for _, x := range p.Pods {
		b.pod(x)
	}
	for _, d := range p.Departed {
		b.pod(d.Pod)
	}
	for _, o := range p.Objects {
		o.Name, o.Uid, o.Version = b.observedName(events.Kind(o.Kind), o.Name), b.name(o.Uid), b.publicOr(o.Version)
		if err := b.stored(events.Kind(o.Kind), &o.Object); err != nil {
			return err
		}
	}
	for _, o := range p.Unreadable {
		o.Name, o.Uid, o.Version = b.name(o.Name), b.name(o.Uid), b.publicOr(o.Version)
		if err := b.jsonIn("", &o.Object); err != nil {
			return err
		}
	}
	return b.offered(p)
}

// offered renames what EC2 offers.
func (b *renaming) offered(p *wire.WorldPart) error {
	for _, list := range [][][]byte{p.InstanceTypes, p.Places} {
		for i := range list {
			if b.collecting() {
				var t events.CatalogInstanceType
				if err := json.Unmarshal(list[i], &t); err != nil {
					return err
				}
				b.learnType(t)
			}
			if err := b.jsonIn("instanceTypes", &list[i]); err != nil {
				return err
			}
		}
	}
	for _, c := range p.Catalogs {
		c.Name, c.NodeClass, c.Hash = b.name(c.Name), b.name(c.NodeClass), b.name(c.Hash)
		for _, z := range c.ZonalShifts {
			z.Zone, z.ZoneId = b.publicOr(z.Zone), b.publicOr(z.ZoneId)
		}
	}
	for _, x := range p.Prices {
		if b.collecting() {
			b.learnPublicWords(x.InstanceType, x.Zone, x.CapacityType)
			b.learning.types[x.InstanceType] = true
		}
	}
	return nil
}

func (b *renaming) pod(p *wire.Pod) {
	if b.collecting() {
		b.stem(p.Name)
	}
	p.Uid, p.Namespace, p.Name, p.NodeName, p.NominatedNode = b.name(p.Uid), b.name(p.Namespace), b.name(p.Name), b.name(p.NodeName), b.name(p.NominatedNode)
	p.UnschedulableMessage, p.Version, p.Phase = b.sentence(p.UnschedulableMessage), b.publicOr(p.Version), b.publicOr(p.Phase)
}

func (b *renaming) podClass(c *wire.PodClass) error {
	c.Labels, c.Annotations = b.labelsOf(c.Labels), b.labelsOf(c.Annotations)
	c.OwnerKind, c.OwnerApiVersion, c.OwnerName, c.OwnerUid = b.publicOr(c.OwnerKind), b.publicOr(c.OwnerApiVersion), b.name(c.OwnerName), b.name(c.OwnerUid)
	b.amountsOf(c.Requests)
	spec := &corev1.PodSpec{}
	if err := spec.Unmarshal(c.Spec); err != nil {
		return err
	}
	renamed, err := b.asJSON("spec", spec)
	if err != nil {
		return err
	}
	class := &world.PodClass{Labels: c.Labels, Annotations: c.Annotations, OwnerKind: c.OwnerKind, OwnerAPIVersion: c.OwnerApiVersion,
		OwnerName: c.OwnerName, OwnerUID: types.UID(c.OwnerUid), Spec: renamed.(*corev1.PodSpec)}
	for _, a := range c.Requests {
		class.Requests.Set(corev1.ResourceName(a.Resource), a.Value)
	}
	class.SetDigest()
	c.Digest = class.Digest
	c.Spec, err = class.Spec.Marshal()
	return err
}

func (b *renaming) labelsOf(m map[string]string) map[string]string {
	if m == nil {
		return nil
	}
	out := make(map[string]string, len(m))
	for k, v := range m {
		out[b.key(k)] = b.label(k, v)
	}
	return out
}

func (b *renaming) amountsOf(list []*wire.Amount) {
	for _, a := range list {
		a.Resource = b.key(a.Resource)
	}
}

// asJSON renames an object by way of JSON.
func (b *renaming) asJSON(name string, object any) (any, error) {
	data, err := json.Marshal(object)
	if err != nil {
		return nil, err
	}
	if again, err := decodeAs(object, data); err != nil || !same(object, again) {
		return nil, fmt.Errorf("JSON does not hold all of the %T", object)
	}
	if err := b.jsonIn(name, &data); err != nil {
		return nil, err
	}
	return decodeAs(object, data)
}

// jsonIn renames a document in the place of a field.
func (b *renaming) jsonIn(name string, data *[]byte) error {
	if len(*data) == 0 {
		return nil
	}
	v, err := parse(*data)
	if err == nil {
		v, err = b.value("", name, v)
	}
	if err == nil {
		*data, err = render(v)
	}
	return err
}

// stored renames an object as a checkpoint holds it.
func (b *renaming) stored(kind events.Kind, data *[]byte) error {
	if len(*data) == 0 {
		return nil
	}
	object := events.NewObject(kind)
	if object == nil {
		return fmt.Errorf("object of kind %d: %w", kind, ErrUnknown)
	}
	coded, isProto := object.(interface {
		Unmarshal(b []byte) error
		Marshal() ([]byte, error)
	})
	if !isProto {
		return b.jsonIn("", data)
	}
	if err := coded.Unmarshal(*data); err != nil {
		return err
	}
	renamed, err := b.asJSON("", object)
	if err != nil {
		return err
	}
	*data, err = renamed.(interface{ Marshal() ([]byte, error) }).Marshal()
	return err
}

// begin is the renamed Ledger that the records lead on from, which is written.
func (b *renaming) begin() (*ledger.Ledger, error) {
	if b.ledger == nil {
		return ledger.New(""), nil
	}
	data, err := b.ledger.Checkpoint()
	if err != nil {
		return nil, err
	}
	var renamed bytes.Buffer
	empty := func() *wire.LedgerPart { return &wire.LedgerPart{} }
	if err := parts.Rewrite(bytes.NewReader(data), &renamed, ledger.CheckpointMagic, empty, b.ledgerPart); err != nil {
		return nil, fmt.Errorf("checkpoint of the ledger: %w", err)
	}
	if b.collecting() {
		return ledger.New(""), nil
	}
	return ledger.Restore(renamed.Bytes())
}

// checkpointBlob puts the Ledger that the bundle begins with into it, and returns what its record says.
func checkpointBlob(out *recording.Contents, l *ledger.Ledger) (digest, name string, err error) {
	blob, err := compressed(l.WriteCheckpoint)
	if err != nil {
		return "", "", err
	}
	sum := sha256.Sum256(blob)
	name = hex.EncodeToString(sum[:])
	out.LogBlobs[name] = blob
	return l.Digest(), name, nil
}

func (b *renaming) ledgerPart(p *wire.LedgerPart) error {
	if p.Head != nil {
		if err := b.ledgerHead(p.Head); err != nil {
			return err
		}
	}
	for _, c := range p.Claims {
		if err := b.claim(c); err != nil {
			return err
		}
	}
	for _, c := range p.Commands {
		c.Id = b.name(c.Id)
		if err := b.jsonIn("", &c.Started); err != nil {
			return err
		}
	}
	for _, x := range p.Proposals {
		x.Id = b.name(x.Id)
		if err := b.documents(&x.Proposed, &x.Answer); err != nil {
			return err
		}
	}
	for _, d := range p.Drains {
		if err := b.drain(d); err != nil {
			return err
		}
	}
	for _, v := range p.Verdicts {
		b.verdict(v)
	}
	b.smallRows(p)
	return nil
}

func (b *renaming) smallRows(p *wire.LedgerPart) {
	for _, o := range p.Offerings {
		o.InstanceType, o.Zone, o.CapacityType = b.publicOr(o.InstanceType), b.publicOr(o.Zone), b.publicOr(o.CapacityType)
		o.Code, o.PlacementGroup = b.publicOr(o.Code), b.name(o.PlacementGroup)
	}
	for _, r := range p.Reservations {
		r.Id = b.name(r.Id)
	}
	for _, a := range p.Aggregates {
		a.Name = b.aggregate(a.Name)
	}
	for _, s := range p.Shadow {
		s.Key, s.Digest = b.shadowKey(s.Key), b.name(s.Digest)
	}
	for _, s := range p.Subnets {
		s.Id, s.Code = b.name(s.Id), b.publicOr(s.Code)
	}
	for _, e := range p.Evictions {
		e.NodePool, e.Command = b.name(e.NodePool), b.name(e.Command)
		b.nameAll(e.Owners)
		b.nameAll(e.To)
	}
}

// shadowKey is a service, a kind and subjects.
func (b *renaming) shadowKey(s string) string {
	head := strings.SplitN(s, "/", 3)
	if len(head) < 3 {
		return b.name(s)
	}
	return b.publicOr(head[0]) + "/" + head[1] + "/" + strings.Join(b.aggregateList(strings.Split(head[2], ",")), ",")
}

func (b *renaming) nameAll(list []string) {
	for i := range list {
		list[i] = b.name(list[i])
	}
}

func (b *renaming) documents(list ...*[]byte) error {
	for _, d := range list {
		if err := b.jsonIn("", d); err != nil {
			return err
		}
	}
	return nil
}

func (b *renaming) ledgerHead(h *wire.LedgerHead) error {
	h.LogId, h.Cluster = b.name(h.LogId), b.name(h.Cluster)
	positions := map[string]uint64{}
	for incarnation, n := range h.Positions {
		positions[b.name(incarnation)] = n
	}
	h.Positions = positions
	b.nameAll(h.Adopted)
	for _, f := range h.Failing {
		f.NodePool = b.name(f.NodePool)
	}
	for _, r := range h.Rollouts {
		r.NodePool, r.Target = b.name(r.NodePool), b.name(r.Target)
		if err := b.jsonIn("", &r.Halted); err != nil {
			return err
		}
	}
	for _, r := range h.LostReturns {
		r.NodePool = b.name(r.NodePool)
	}
	for _, d := range h.DrainOuts {
		d.Node, d.Claim, d.ClaimUid, d.NodePool, d.Policy = b.name(d.Node), b.name(d.Claim), b.name(d.ClaimUid), b.name(d.NodePool), b.name(d.Policy)
	}
	for _, m := range h.Memory {
		m.InstanceType, m.Images = b.publicOr(m.InstanceType), b.name(m.Images)
	}
	return b.documents(&h.Options, &h.Control, &h.Drifts)
}

func (b *renaming) claim(c *wire.Claim) error {
	c.Name, c.CommandId, c.NodePool, c.Uid = b.name(c.Name), b.name(c.CommandId), b.name(c.NodePool), b.name(c.Uid)
	c.Node, c.TakenBy, c.State = b.name(c.Node), b.name(c.TakenBy), b.publicOr(c.State)
	b.amountsOf(c.Capacity)
	for _, e := range c.Earlier {
		if err := b.jsonIn("", &e.Planned); err != nil {
			return err
		}
	}
	return b.documents(&c.Planned, &c.Open, &c.Failed, &c.Instance, &c.Doomed)
}

func (b *renaming) drain(d *wire.Drain) error {
	d.Node = b.name(d.Node)
	b.nameAll(d.TierPods)
	b.nameAll(d.HeldPods)
	for _, s := range d.Surges {
		s.PodUid, s.Deployment = b.name(s.PodUid), b.name(s.Deployment)
	}
	return b.jsonIn("", &d.Started)
}

// verdict of a pod. The digest of the reasons of a refusal is that of the renamed ones, as far as they were
// seen, and else one that says nothing.
func (b *renaming) verdict(v *wire.Verdict) {
	if b.collecting() {
		b.stem(v.Name)
	}
	v.PodUid, v.Namespace, v.Name, v.Node, v.Claim = b.name(v.PodUid), b.name(v.Namespace), b.name(v.Name), b.name(v.Node), b.name(v.Claim)
	for _, x := range v.Excluded {
		x.Node = b.name(x.Node)
	}
	if v.Digest == 0 || b.collecting() {
		return
	}
	if _, ok := b.refusals[v.Digest]; !ok {
		b.refusals[v.Digest] = uint64(len(b.refusals) + 1)
	}
	v.Digest = b.refusals[v.Digest]
}

// learnRefusals takes the reasons that planners have for refusing pods for those of the checkpoint: then
// nothing is recorded about these pods. before are those that records have refused since.
func (b *renaming) learnRefusals(was, is *ledger.ProvisioningPlanned, before map[string]int) bool {
	if b.ledger == nil {
		return false
	}
	recorded := map[string]bool{}
	for uid := range before {
		recorded[uid] = true
	}
	for _, r := range was.Refused {
		for _, p := range r.Pods {
			recorded[b.name(string(p.UID))] = true
		}
	}
	digests := map[string]uint64{}
	for _, v := range b.ledger.Verdicts() {
		digests[b.name(string(v.Pod.UID))] = v.Digest
	}
	learned := false
	for _, r := range is.Refused {
		digest := ledger.RefusalDigest(r.Reasons)
		for _, p := range r.Pods {
			if old := digests[string(p.UID)]; old != 0 && !recorded[string(p.UID)] && b.refusals[old] != digest {
				b.refusals[old], learned = digest, true
			}
		}
	}
	return learned
}
