package recording

import (
	"archive/zip"
	"context"
	"encoding/gob"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/klauspost/compress/zstd"

	"millwright/events"
	"millwright/planner"
	"millwright/planner/ledger"
	"millwright/planner/ledger/names"
	"millwright/store"
	"millwright/store/audit"
)

// Versions of a bundle. The one with pseudonyms is the highest that is read: programs that know only the
// first would replay it wrongly.
const (
	bundleFormat     = 1
	pseudonymsFormat = 2
)

// silentMax bounds the wait for the next message of a stream.
const silentMax = 30 * time.Second

// Entries of a bundle, which is a zip file. Blobs are below their prefixes.
const (
	entryManifest = "manifest.json"
	entryRecords  = "records.gob.zst"
	entryMessages = "messages.gob.zst"
	prefixLog     = "log-blobs/"
	prefixStream  = "stream-blobs/"
)

// Manifest says what a bundle is of.
type Manifest struct {
	Format  int       `json:"format"`
	Cluster string    `json:"cluster"`
	LogID   string    `json:"logID"`
	Created time.Time `json:"created"`
	// Program that wrote it, and its version of the planners.
	Program string `json:"program"`
	Planner uint32 `json:"planner"`
	// About is what was asked for, in words; From and To are the records that it is about.
	About string `json:"about,omitempty"`
	From  uint64 `json:"from"`
	To    uint64 `json:"to"`
	// First and Last of the records in it; those before From are what replay needs.
	First uint64 `json:"first"`
	Last  uint64 `json:"last"`
	// Checkpoint is the record of the Ledger's checkpoint that they continue; 0: they begin with the log.
	Checkpoint uint64 `json:"checkpoint,omitempty"`
	// Stream is what is in it of the observations, World the checkpoint that they continue; "": none.
	Stream events.StreamState `json:"stream"`
	World  string             `json:"world,omitempty"`
	// Missing says what replay will not find, in words.
	Missing []string `json:"missing,omitempty"`
	// Pseudonyms is nil if the names are those that are on record.
	Pseudonyms *Pseudonyms `json:"pseudonyms,omitempty"`
}

// Pseudonyms say how a bundle differs from one with the names on record (package pseudonyms).
type Pseudonyms struct {
	// Chain says, for people, that the hashes of the records are those of the renamed ones.
	Chain string `json:"chain"`
	// Computed are the pseudonyms of names that planners compute, by what they compute from renamed inputs.
	Computed names.Replaced `json:"computed,omitempty"`
	// Withheld are decisions that do not come out alike with pseudonyms, and are not replayed.
	Withheld []Withheld `json:"withheld,omitempty"`
}

// Withheld decision.
type Withheld struct {
	Seq uint64 `json:"seq"`
	Why string `json:"why"`
}

// BundleRequest says what a bundle is to be of.
type BundleRequest struct {
	// From and To are the first and the last record; both are there.
	From, To                       uint64
	Cluster, LogID, Program, About string
	Now                            time.Time
}

// WriteBundle writes the records of a range, with what replaying their decisions takes: the checkpoint of the
// Ledger before them and the records since, the checkpoint of the World before the first decision and the
// observations since, and their catalogues. What cannot be had is named in the Manifest. Names are as they
// are on record; package pseudonyms replaces them.
func WriteBundle(ctx context.Context, out io.Writer, log audit.CheckpointLog, stream audit.Stream, r BundleRequest) (*Manifest, error) {
	b := &bundler{log: log, stream: stream, zip: zip.NewWriter(out), catalogs: map[string]bool{}, manifest: Manifest{
		Format: bundleFormat, Cluster: r.Cluster, LogID: r.LogID, Created: r.Now.UTC(), Program: r.Program, Planner: planner.Version,
		About: r.About, From: r.From, To: r.To, First: 1, Last: r.To}}
	for _, step := range []func(context.Context) error{b.begin, b.records, b.observations, b.catalogues} {
		if err := step(ctx); err != nil {
			return nil, fmt.Errorf("write bundle: %w", err)
		}
	}
	if err := b.close(); err != nil {
		return nil, fmt.Errorf("write bundle: %w", err)
	}
	return &b.manifest, nil
}

// close writes the manifest, last.
func (b *bundler) close() error {
	w, err := b.zip.Create(entryManifest)
	if err == nil {
		e := json.NewEncoder(w)
		e.SetIndent("", "  ")
		err = e.Encode(&b.manifest)
	}
	return errors.Join(err, b.zip.Close())
}

// bundler writes one bundle.
type bundler struct {
	log      audit.CheckpointLog
	stream   audit.Stream
	zip      *zip.Writer
	manifest Manifest
	// positions of the range's decisions, by incarnation.
	positions map[string]span
	catalogs  map[string]bool
}

// span of positions.
type span struct{ first, last uint64 }

func (b *bundler) missing(format string, args ...any) {
	b.manifest.Missing = append(b.manifest.Missing, fmt.Sprintf(format, args...))
}

// begin finds the checkpoint that replay will begin with, and writes it. Without one the log must be there
// from its first record on.
func (b *bundler) begin(ctx context.Context) error {
	_, err := b.log.Read(ctx, 2, 1) // the first record is always there
	compacted := errors.Is(err, store.ErrCompacted)
	if err != nil && !compacted {
		return err
	}
	if !compacted && b.manifest.From <= audit.BeforeRange {
		return nil
	}
	var found audit.Checkpoint
	var blob []byte
	err = audit.EachCheckpoint(ctx, b.log, func(c audit.Checkpoint) bool {
		early := c.Seq+audit.BeforeRange <= b.manifest.From
		if !early && !compacted {
			return true
		}
		if data, err := b.log.GetBlob(ctx, c.Blob); err == nil {
			found, blob = c, data
		}
		return !early || blob == nil
	})
	switch {
	case err != nil:
		return err
	case blob == nil && compacted:
		return fmt.Errorf("the log's first records are archived, and there is %w", audit.ErrNoCheckpoint)
	case blob == nil:
		return nil
	}
	if found.Seq+audit.BeforeRange > b.manifest.From {
		b.missing("decisions up to record %d: the records before are archived, and the archive is not at hand", found.Seq+audit.BeforeRange)
	}
	b.manifest.First, b.manifest.Checkpoint = found.Seq+1, found.Record
	b.manifest.Last = max(b.manifest.Last, found.Record)
	return b.blob(prefixLog+found.Blob, blob)
}

// blob writes one entry as it is.
func (b *bundler) blob(name string, data []byte) error {
	w, err := b.zip.Create(name)
	if err == nil {
		_, err = w.Write(data)
	}
	return err
}

// coded writes an entry as a stream of gobs.
func (b *bundler) coded(name string, write func(encode func(any) error) error) error {
	w, err := b.zip.CreateHeader(&zip.FileHeader{Name: name, Method: zip.Store})
	if err != nil {
		return err
	}
	z, err := zstd.NewWriter(w, zstd.WithEncoderConcurrency(1))
	if err != nil {
		return err
	}
	return errors.Join(write(gob.NewEncoder(z).Encode), z.Close())
}

// records writes them, and notes the positions of the range's decisions.
func (b *bundler) records(ctx context.Context) error {
	b.positions = map[string]span{}
	return b.coded(entryRecords, func(encode func(any) error) error {
		for next := b.manifest.First; next <= b.manifest.Last; {
			page, err := b.log.Read(ctx, next, 0)
			if err != nil {
				return fmt.Errorf("read log from %d: %w", next, err)
			}
			if len(page) == 0 {
				return fmt.Errorf("the log ends before record %d", next)
			}
			for i := range page {
				if page[i].Seq > b.manifest.Last {
					break
				}
				b.note(page[i])
				if err := encode(&page[i]); err != nil {
					return err
				}
			}
			next = page[len(page)-1].Seq + 1
		}
		return nil
	})
}

// note the positions that a record's decision was taken at.
func (b *bundler) note(rec store.Record) {
	if rec.Seq < b.manifest.From || rec.Seq > b.manifest.To {
		return
	}
	e, err := audit.Decode(rec)
	if err != nil || !audit.IsDecision(e) {
		return
	}
	b.noteAt(e.Position)
	if p, ok := e.Payload.(*ledger.ProvisioningPlanned); ok && p.Search != nil {
		b.noteAt(p.Search.Position)
	}
}

func (b *bundler) noteAt(p events.Position) {
	s, ok := b.positions[p.Incarnation]
	if !ok {
		s = span{p.Sequence, p.Sequence}
	}
	b.positions[p.Incarnation] = span{min(s.first, p.Sequence), max(s.last, p.Sequence)}
}

// observations writes the World's checkpoint and the messages that lead to the decisions.
func (b *bundler) observations(ctx context.Context) error {
	st, err := b.stream.State(ctx)
	if err != nil {
		return fmt.Errorf("ask for stream state: %w", err)
	}
	for incarnation := range b.positions {
		if incarnation != st.Incarnation {
			b.missing("decisions of stream %s, which is not at hand", incarnation)
		}
	}
	slices.Sort(b.manifest.Missing)
	wanted, ok := b.positions[st.Incarnation]
	b.manifest.Stream = events.StreamState{Incarnation: st.Incarnation}
	if !ok || st.Last == 0 {
		return b.coded(entryMessages, func(func(any) error) error { return nil })
	}
	first, err := b.world(ctx, st, wanted)
	if err != nil {
		return err
	}
	last := min(wanted.last, st.Last)
	b.manifest.Stream.First, b.manifest.Stream.Last = first, max(last, first-1)
	return b.coded(entryMessages, func(encode func(any) error) error {
		if first > last {
			return nil
		}
		err := b.consume(ctx, first, last, encode)
		if err == nil {
			err = b.checkSame(ctx, st)
		}
		if err != nil {
			return fmt.Errorf("read stream %s, messages %d to %d: %w", st.Incarnation, first, last, err)
		}
		return nil
	})
}

// consume writes messages. Some that were there when the stream was asked may be gone: it waits for none
// longer than silentMax.
func (b *bundler) consume(ctx context.Context, first, last uint64, encode func(any) error) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	silent := time.AfterFunc(silentMax, func() { cancel(fmt.Errorf("nothing came for %s", silentMax)) })
	defer silent.Stop()
	err := b.stream.Consume(ctx, first, func(m events.Message) error {
		silent.Reset(silentMax)
		if m.Sequence > last {
			return errEnd
		}
		b.catalogOf(m)
		if err := encode(&m); err != nil {
			return err
		}
		if m.Sequence == last {
			return errEnd
		}
		return nil
	})
	switch {
	case errors.Is(err, errEnd):
		return nil
	case ctx.Err() != nil:
		return context.Cause(ctx)
	}
	return err
}

// checkSame refuses messages that were read of another incarnation than the one that was asked about first.
func (b *bundler) checkSame(ctx context.Context, st events.StreamState) error {
	now, err := b.stream.State(ctx)
	switch {
	case err != nil:
		return fmt.Errorf("ask for its state: %w", err)
	case now.Incarnation != st.Incarnation:
		return fmt.Errorf("%w: %s", events.ErrRenewed, now.Incarnation)
	}
	return nil
}

// world writes the checkpoint from which the first decision's World is folded, and returns the first message
// that is needed after it.
func (b *bundler) world(ctx context.Context, st events.StreamState, wanted span) (uint64, error) {
	list, err := events.Checkpoints(ctx, b.stream.Blobs())
	if err != nil {
		return 0, err
	}
	var before, after []events.Checkpoint
	for _, c := range list {
		switch {
		case c.Incarnation != st.Incarnation || c.Sequence+1 < st.First:
		case c.Sequence <= wanted.first:
			before = append(before, c)
		case st.First > 1:
			after = append(after, c)
		}
	}
	slices.Reverse(before)
	for _, c := range append(before, after...) {
		data, err := b.stream.Blobs().Get(ctx, c.Name)
		if err != nil {
			continue // it was deleted since, or is damaged: there are others
		}
		if c.Sequence > wanted.first {
			b.missing("decisions before message %d: the stream retains messages from %d on", c.Sequence, st.First)
		}
		b.manifest.World = c.Name
		return c.Sequence + 1, b.blob(prefixStream+c.Name, data)
	}
	if st.First > 1 {
		b.missing("all decisions that need the World: the stream retains messages from %d on and no checkpoint reaches them", st.First)
	}
	return max(st.First, 1), nil
}

func (b *bundler) catalogOf(m events.Message) {
	o, err := events.Decode(m.Data)
	if err != nil {
		return
	}
	if ref, ok := o.Object.(*events.CatalogRef); ok {
		b.catalogs[events.CatalogBlob(ref.Hash)] = true
	}
}

// catalogues writes those that messages name.
func (b *bundler) catalogues(ctx context.Context) error {
	names := make([]string, 0, len(b.catalogs))
	for name := range b.catalogs {
		names = append(names, name)
	}
	slices.Sort(names)
	for _, name := range names {
		data, err := b.stream.Blobs().Get(ctx, name)
		switch {
		case events.BlobLost(err):
			b.missing("the catalogue %s", strings.TrimPrefix(name, "catalog/"))
		case err != nil:
			return fmt.Errorf("read catalogue: %w", err)
		default:
			if err := b.blob(prefixStream+name, data); err != nil {
				return err
			}
		}
	}
	return nil
}
