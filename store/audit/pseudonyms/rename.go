package pseudonyms

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/types"

	"millwright/events"
	"millwright/planner/ledger"
	"millwright/planner/world"
	"millwright/store"
	"millwright/store/audit"
	"millwright/store/audit/recording"
	storerecord "millwright/store/record"
)

// roundsMax bounds how often decisions are planned again to learn what planners compute.
const roundsMax = 40

// Table of pseudonyms by original: of whole names, as they are on record.
type Table map[string]string

// Rename replaces the names in a bundle, which is not changed. What was replayed of it is replayed of the
// result, and comes out alike, but for decisions that the result names as withheld. ErrUnknown: it holds
// something that may be a name, or not.
func Rename(ctx context.Context, in *recording.Contents) (out *recording.Contents, table Table, err error) {
	defer func() {
		if u, ok := recover().(uncollected); ok {
			out, err = nil, fmt.Errorf("a name of %d bytes was found where none was expected: %w", len(u.word), ErrUnknown)
		}
	}()
	if in.Manifest.Pseudonyms != nil {
		return nil, nil, errors.New("its names are pseudonyms already")
	}
	s, err := read(ctx, in)
	if err != nil {
		return nil, nil, fmt.Errorf("replace names: %w", err)
	}
	b := &renaming{source: s, renamer: newRenamer(), again: map[uint64]again{}, withheld: map[uint64]string{}, refusals: map[uint64]uint64{}}
	if err := b.collect(); err != nil {
		return nil, nil, fmt.Errorf("replace names: %w", err)
	}
	if out, err = b.settle(ctx); err != nil {
		return nil, nil, fmt.Errorf("replace names: %w", err)
	}
	if err := b.checkNothingLeft(out); err != nil {
		return nil, nil, fmt.Errorf("replace names: %w", err)
	}
	return out, b.table(), nil
}

// renaming of one bundle.
type renaming struct {
	*source
	*renamer
	// newID is the new id of the log, again what decisions come to, withheld why others are not replayed.
	newID    string
	again    map[uint64]again
	withheld map[uint64]string
	// replayed are the decisions that come out as recorded, before they are renamed.
	replayed map[uint64]bool
	digests  map[events.Position]uint64
	hashes   map[string]string
	// refusals are the digests of renamed reasons by those of the reasons.
	refusals map[uint64]uint64
}

// again is what the planners decide from renamed inputs; it takes the place of what is on record.
type again struct{ payload, explanation []byte }

// collect the names in three passes: names are told from what is public, texts are read with all names known.
func (b *renaming) collect() error {
	b.learnPublic()
	for pass := range 3 {
		if _, err := b.build(); err != nil {
			return err
		}
		if pass == 0 { // now it is known what is public
			b.learning.words, b.learning.whole, b.learning.keys = map[string]bool{}, map[string]bool{}, map[string]bool{}
		}
	}
	for _, c := range b.computedNames() {
		b.name(c.of(b.logID, func(s string) string { return s }))
	}
	for _, w := range []string{b.in.Manifest.Cluster, b.logID, b.in.Manifest.Stream.Incarnation} {
		b.name(w)
	}
	b.newID = storerecord.NewLogID()
	x, err := assign(b.learning.words, b.learning.fixed)
	if err != nil {
		return err
	}
	b.pseudonyms = x
	b.computed[b.logID] = b.newID
	b.virtualPods()
	return b.computeHashes()
}

// learnPublic notes what AWS's catalogues and price lists name.
func (b *renaming) learnPublic() {
	note := b.learnPublicWords
	for _, c := range b.catalogs {
		for _, t := range c.InstanceTypes {
			b.learnType(t)
		}
	}
	for _, m := range b.messages {
		switch o := m.observation.Object.(type) {
		case *events.Prices:
			for _, p := range o.Entries {
				note(p.InstanceType, p.Zone, p.CapacityType)
				b.learning.types[p.InstanceType] = true
			}
		case *events.InstanceState:
			note(o.InstanceType, o.Zone, o.CapacityType)
		}
	}
}

func (b *renaming) learnPublicWords(list ...string) {
	for _, s := range list {
		b.learning.public[s] = true
	}
}

func (b *renaming) learnType(t events.CatalogInstanceType) {
	if t.Name != "" {
		b.learning.types[t.Name] = true
	}
	b.learnPublicWords(t.Name)
	for key, values := range t.Requirements {
		if b.isPublicKey(key) && !namedValues[key] {
			b.learnPublicWords(values...)
		}
	}
	for _, o := range t.Offerings {
		b.learnPublicWords(o.Zone, o.ZoneID, o.CapacityType)
	}
}

// renamed is the renamed object of a message.
func (b *renaming) renamed(m message) (any, error) {
	data, err := b.json(m.object)
	if err != nil {
		return nil, fmt.Errorf("message %d: %w", m.Sequence, err)
	}
	object, err := decodeAs(m.observation.Object, data)
	if err != nil {
		return nil, fmt.Errorf("message %d: %w", m.Sequence, err)
	}
	return object, nil
}

// settle builds the bundle until its decisions come out as they are recorded, or are withheld.
func (b *renaming) settle(ctx context.Context) (*recording.Contents, error) {
	within := audit.Range{From: b.in.Manifest.From, To: b.in.Manifest.To}
	original := b.in.Bundle()
	before, err := audit.Replay(ctx, original, original, within)
	if err != nil {
		return nil, err
	}
	diverged := map[uint64]bool{}
	for _, d := range before.Divergences {
		diverged[d.Seq] = true
	}
	b.replayed = replayedOf(b.records, before)
	for round := 0; ; round++ {
		out, err := b.build()
		if err != nil {
			return nil, err
		}
		renamed := out.Bundle()
		after, err := audit.Replay(ctx, renamed, renamed, within)
		if err != nil {
			return nil, err
		}
		after.Divergences = slices.DeleteFunc(after.Divergences, func(d audit.Divergence) bool { return diverged[d.Seq] })
		if len(after.Divergences) == 0 {
			return out, nil
		}
		b.learnAll(after.Divergences, round >= roundsMax)
	}
}

// learnAll learns what it can. What follows from a decision that came out otherwise does so too, so only the
// first that cannot be learned is withheld, unless it is the last round.
func (b *renaming) learnAll(list []audit.Divergence, last bool) {
	learned := false
	for _, d := range list {
		learned = b.learn(d) || learned
	}
	for i, d := range list {
		if last || !learned && i == 0 {
			b.withheld[d.Seq] = "it does not come out alike with pseudonyms: " + d.Kind.String()
		}
	}
}

// replayedOf are the decisions that a replay took again and that came out as recorded.
func replayedOf(records []record, r audit.Report) map[uint64]bool {
	replayed := map[uint64]bool{}
	for i := range records {
		e := records[i].entry
		skipped := slices.ContainsFunc(r.NotReplayable, func(s audit.Span) bool { return e.Seq >= s.From && e.Seq <= s.To })
		otherwise := slices.ContainsFunc(r.Divergences, func(d audit.Divergence) bool { return d.Seq == e.Seq })
		if audit.Replayable(e) && !skipped && !otherwise {
			replayed[e.Seq] = true
		}
	}
	return replayed
}

// build makes the bundle with the pseudonyms that are known.
func (b *renaming) build() (*recording.Contents, error) {
	out := &recording.Contents{Manifest: b.manifest(), LogBlobs: map[string][]byte{}, StreamBlobs: map[string][]byte{}}
	b.hashes = map[string]string{}
	for _, step := range []func(*recording.Contents) error{b.catalogues, b.stream, b.log} {
		if err := step(out); err != nil {
			return nil, err
		}
	}
	return out, nil
}

func (b *renaming) manifest() recording.Manifest {
	m := b.in.Manifest
	m.World = ""
	m.LogID, m.Cluster, m.About = b.newID, b.name(m.Cluster), ""
	m.Stream.Incarnation = b.name(m.Stream.Incarnation)
	m.Missing = nil
	for _, text := range b.in.Manifest.Missing {
		m.Missing = append(m.Missing, b.sentence(text))
	}
	m.Pseudonyms = &recording.Pseudonyms{Chain: "the hashes are those of the renamed records: they prove nothing of the log that the bundle is of"}
	if b.collecting() {
		return m
	}
	m.Pseudonyms.Computed = b.replaced()
	for _, seq := range slices.Sorted(maps.Keys(b.withheld)) {
		m.Pseudonyms.Withheld = append(m.Pseudonyms.Withheld, recording.Withheld{Seq: seq, Why: b.withheld[seq]})
	}
	return m
}

// catalogues are named by their hashes.
func (b *renaming) catalogues(out *recording.Contents) error {
	for name := range b.catalogs {
		data, err := b.json(b.in.StreamBlobs[name])
		if err != nil {
			return fmt.Errorf("catalogue: %w", err)
		}
		sum := sha256.Sum256(data)
		hash := hex.EncodeToString(sum[:])
		b.hashes[strings.TrimPrefix(name, "catalog/")] = hash
		out.StreamBlobs[events.CatalogBlob(hash)] = data
	}
	if !b.collecting() {
		maps.Copy(b.computed, b.hashes)
	}
	return nil
}

// stream writes the messages, and notes the digests of the positions that they lead to.
func (b *renaming) stream(out *recording.Contents) error {
	b.digests = map[events.Position]uint64{}
	was, is, err := b.worlds(out)
	if err != nil {
		return err
	}
	for _, m := range b.messages {
		o, err := b.observation(m, was, is)
		if err != nil {
			return err
		}
		if b.collecting() {
			continue
		}
		data, err := events.Encode(o)
		if err != nil {
			return fmt.Errorf("message %d: %w", m.Sequence, err)
		}
		out.Messages = append(out.Messages, events.Message{Sequence: m.Sequence, Data: data})
		before, after := m.observation, o
		b.resolve(&before, b.in.StreamBlobs)
		b.resolve(&after, out.StreamBlobs)
		was.Apply(m.Sequence, before)
		is.Apply(m.Sequence, after)
		b.digests[was.Position()] = is.Position().Digest
	}
	return nil
}

func (b *renaming) resolve(o *events.Observation, blobs map[string][]byte) {
	ref, ok := o.Object.(*events.CatalogRef)
	if !ok {
		return
	}
	with := *ref
	if data, there := blobs[events.CatalogBlob(ref.Hash)]; there {
		with.Catalog = &events.Catalog{}
		if json.Unmarshal(data, with.Catalog) != nil {
			with.Catalog = nil
		}
	}
	o.Object = &with
}

// observation renames a message's.
func (b *renaming) observation(m message, was, is *world.World) (events.Observation, error) {
	o := m.observation
	o.UID, o.ResourceVersion = types.UID(b.name(string(o.UID))), b.publicOr(o.ResourceVersion)
	o.Name = b.observedName(o.Kind, o.Name)
	if o.Kind == events.KindPod && b.collecting() {
		b.stem(o.Name[strings.IndexByte(o.Name, '/')+1:])
	}
	if o.Object == nil {
		return o, nil
	}
	var err error
	if o.Object, err = b.renamed(m); err != nil {
		return o, err
	}
	if beat, ok := o.Object.(*events.Heartbeat); ok && !b.collecting() {
		beat.Sums = sums(beat.Sums, was, is)
	}
	return o, nil
}

// observedName is the name of what an observation is about; that of an interruption ends with its kind.
func (b *renaming) observedName(kind events.Kind, name string) string {
	if at := strings.LastIndexByte(name, '/'); kind == events.KindInterruption && at > 0 {
		return b.name(name[:at]) + "/" + b.publicOr(name[at+1:])
	}
	return b.name(name)
}

// sums of the renamed objects; one that did not match does not match.
func sums(published map[string]events.Sum, was, is *world.World) map[string]events.Sum {
	if len(published) == 0 {
		return published
	}
	before, after, out := was.Sums(), is.Sums(), map[string]events.Sum{}
	for kind, sum := range published {
		matched := sum == before[kind]
		if sum = after[kind]; !matched {
			sum.Hash++
		}
		out[kind] = sum
	}
	return out
}

// log writes the records, with a chain of their own.
func (b *renaming) log(out *recording.Contents) error {
	prev := storerecord.Place{}
	for _, r := range b.records {
		rec, err := b.record(r, out)
		if err != nil {
			return fmt.Errorf("record %d: %w", r.Seq, err)
		}
		if b.collecting() {
			continue
		}
		if prev.Seq+1 != r.Seq {
			prev = storerecord.Place{Head: store.Head{Seq: r.Seq - 1}}
		}
		sealed := storerecord.Stored{Record: rec}
		sealed.PrevHash = prev.Hash
		sealed.PayloadContent.Sum, sealed.ExplanationContent.Sum = sha256.Sum256(rec.Payload), sha256.Sum256(rec.Explanation)
		sealed.Hash = sha256.Sum256(storerecord.Canonical(sealed))
		out.Records = append(out.Records, sealed.Record)
		prev = sealed.Place()
	}
	return b.ledgerCheckpoints(out)
}

func (b *renaming) record(r record, out *recording.Contents) (store.Record, error) {
	rec := r.Record
	b.planned = b.replayed[r.Seq]
	defer func() { b.planned = false }()
	rec.Subjects, rec.Advances = b.aggregateList(rec.Subjects), b.aggregateList(rec.Advances)
	rec.Service = b.publicOr(rec.Service)
	rec.Position = store.Position(b.position(events.Position(rec.Position)))
	var err error
	if rec.Payload, err = b.json(r.payload); err != nil {
		return rec, err
	}
	if rec.Payload, err = b.positions(r, rec.Payload); err != nil {
		return rec, err
	}
	if len(r.Explanation) > 0 {
		if rec.Explanation, err = b.json(r.Explanation); err != nil {
			return rec, err
		}
	}
	if x, ok := b.again[r.Seq]; ok {
		rec.Payload, rec.Explanation = x.payload, x.explanation
	}
	return rec, nil
}

func (b *renaming) aggregateList(list []string) (out []string) {
	for _, s := range list {
		out = append(out, b.aggregate(s))
	}
	return out
}

// position with the digest of the renamed messages; one that is of others stays so.
func (b *renaming) position(p events.Position) events.Position {
	digest, ok := b.digests[p]
	if p.Incarnation = b.name(p.Incarnation); ok {
		p.Digest = digest
	} else if p.Digest != 0 {
		p.Digest = 1
	}
	return p
}

// positions in a payload.
func (b *renaming) positions(r record, payload []byte) ([]byte, error) {
	p, ok := r.entry.Payload.(*ledger.ProvisioningPlanned)
	if !ok || p.Search == nil {
		return payload, nil
	}
	renamed := &ledger.ProvisioningPlanned{}
	if err := json.Unmarshal(payload, renamed); err != nil {
		return nil, err
	}
	renamed.Search.Position = b.position(p.Search.Position)
	return json.Marshal(renamed)
}

// ledgerCheckpoints sets the digests of the checkpoints on record to those of the renamed fold.
func (b *renaming) ledgerCheckpoints(out *recording.Contents) error {
	l, err := b.begin()
	if err != nil || b.collecting() {
		return err
	}
	ledger.Replace(l, out.Manifest.Pseudonyms.Computed)
	begin := l.Version()
	digests := map[uint64]string{}
	wanted := map[uint64]bool{}
	for _, r := range b.records {
		if c, ok := r.entry.Payload.(*ledger.LedgerCheckpoint); ok {
			wanted[c.Seq] = true
		}
	}
	for i := range out.Records {
		e, err := audit.Decode(out.Records[i])
		if err != nil {
			return err
		}
		if c, ok := e.Payload.(*ledger.LedgerCheckpoint); ok {
			if c.Digest = digests[c.Seq]; b.ledger != nil && c.Seq == b.ledger.Seq() {
				if c.Digest, c.Blob, err = checkpointBlob(out, begin); err != nil {
					return err
				}
			}
			if out.Records[i].Payload, err = json.Marshal(c); err != nil {
				return err
			}
		}
		if err := l.Apply(e); err != nil {
			return err
		}
		if wanted[e.Seq] {
			digests[e.Seq] = l.Digest()
		}
	}
	return nil
}

// table of the names that were replaced.
func (b *renaming) table() Table {
	t := Table{}
	for w := range b.learning.whole {
		if p := b.name(w); p != w {
			t[w] = p
		}
	}
	return t
}
