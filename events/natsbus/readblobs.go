package natsbus

import (
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"hash"
	"io"
	"slices"
	"strings"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"millwright/events"
)

// readBlobs reads blobs, and is all that a ReadOnly client has of them. It requests single messages of the
// bucket's stream from its leader, which has everything that was acknowledged. The object store's own reads
// need a consumer, which a ReadOnly client may not create, and wait for chunks that are gone until they time
// out.
type readBlobs struct {
	s *Stream
}

// errReadOnly is what a ReadOnly client returns for a write.
var errReadOnly = errors.New("this client only reads")

func (b *readBlobs) Put(context.Context, string, []byte) error { return errReadOnly }
func (b *readBlobs) Write(context.Context, string, func(io.Writer) error) error {
	return errReadOnly
}
func (b *readBlobs) Delete(context.Context, string) error { return errReadOnly }

func (b *readBlobs) stream() string { return "OBJ_" + b.s.cfg.bucket() }

// subjectOf a blob's description; that of "" is the common prefix of all.
func (b *readBlobs) subjectOf(name string) string {
	return "$O." + b.s.cfg.bucket() + ".M." + base64.URLEncoding.EncodeToString([]byte(name))
}

// readAttempts bounds how often a question is put that got no answer in time: RequestTimeout, and twice as
// long with each attempt. A machine may have too much to do, and a list of blobs takes as long as the server
// needs to read through all that the bucket holds.
const readAttempts = 3

func (b *readBlobs) ask(ctx context.Context, question func(ctx context.Context) error) (err error) {
	for i := range readAttempts {
		attempt, end := context.WithTimeout(ctx, b.s.cfg.RequestTimeout<<i)
		err = question(attempt)
		end()
		if ctx.Err() != nil || !errors.Is(err, context.DeadlineExceeded) {
			return err
		}
	}
	return err
}

// open checks that the bucket exists.
func (b *readBlobs) open(ctx context.Context) error {
	err := b.ask(ctx, func(ctx context.Context) error {
		_, err := b.s.js.Stream(ctx, b.stream())
		return err
	})
	if errors.Is(err, jetstream.ErrStreamNotFound) {
		err = errNotMade
	}
	if err != nil {
		return fmt.Errorf("open bucket %s: %w", b.s.cfg.bucket(), err)
	}
	return nil
}

// storedMessage is the server's answer to $JS.API.STREAM.MSG.GET.
type storedMessage struct {
	Message struct {
		Sequence uint64 `json:"seq"`
		Data     []byte `json:"data"`
	} `json:"message"`
	Error *struct {
		Code        jetstream.ErrorCode `json:"err_code"`
		Description string              `json:"description"`
	} `json:"error"`
}

// message gets one message of the bucket's stream; ErrNotFound if there is none.
func (b *readBlobs) message(ctx context.Context, request map[string]any) (*storedMessage, error) {
	data, err := json.Marshal(request)
	if err != nil {
		return nil, err
	}
	var m *nats.Msg
	err = b.ask(ctx, func(ctx context.Context) (err error) {
		m, err = b.s.conn.RequestWithContext(ctx, "$JS.API.STREAM.MSG.GET."+b.stream(), data)
		return err
	})
	if err != nil {
		return nil, err
	}
	answer := &storedMessage{}
	if err := json.Unmarshal(m.Data, answer); err != nil {
		return nil, fmt.Errorf("read the server's answer: %w", err)
	}
	switch e := answer.Error; {
	case e == nil:
		return answer, nil
	case e.Code == jetstream.JSErrCodeMessageNotFound:
		return nil, events.ErrNotFound
	default:
		return nil, fmt.Errorf("%d %s", e.Code, e.Description)
	}
}

// chunksOf is the subject of the chunks of a blob whose description has this NUID.
func (b *readBlobs) chunksOf(nuid string) string { return "$O." + b.s.cfg.bucket() + ".C." + nuid }

// errReplaced ends the reading of a blob that was stored again meanwhile; begin anew.
var errReplaced = errors.New("replaced while it was read")

// Get implements events.Blobs.
func (b *readBlobs) Get(ctx context.Context, name string) ([]byte, error) {
	blob, err := b.Open(ctx, name)
	if err != nil {
		return nil, err
	}
	defer blob.Close()
	return io.ReadAll(blob)
}

// Open implements events.Blobs.
func (b *readBlobs) Open(ctx context.Context, name string) (io.ReadCloser, error) {
	ctx, cancel := context.WithTimeout(ctx, blobTimeout)
	o, err := b.findBlob(ctx, name)
	if err != nil {
		cancel()
		return nil, fmt.Errorf("get blob %s: %w", name, err)
	}
	o.ctx, o.cancel = ctx, cancel
	return o, nil
}

func (b *readBlobs) findBlob(ctx context.Context, name string) (*readObject, error) {
	described, err := b.message(ctx, map[string]any{"last_by_subj": b.subjectOf(name)})
	if err != nil {
		return nil, err
	}
	o := &readObject{b: b, next: 1, sum: sha256.New()}
	if err := json.Unmarshal(described.Message.Data, &o.info); err != nil {
		return nil, fmt.Errorf("read its description: %w: %w", events.ErrDamaged, err)
	}
	if o.info.Deleted {
		return nil, events.ErrNotFound
	}
	return o, nil
}

// readObject reads an object chunk by chunk, and at its end compares it with its description.
type readObject struct {
	b      *readBlobs
	ctx    context.Context
	cancel context.CancelFunc
	info   jetstream.ObjectInfo
	// chunks were read up to message next of the bucket's stream; chunk is the rest of the last one.
	chunks uint32
	next   uint64
	chunk  []byte
	sum    hash.Hash
	size   uint64
}

func (o *readObject) Close() error {
	o.cancel()
	return nil
}

func (o *readObject) Read(into []byte) (int, error) {
	for len(o.chunk) == 0 {
		if o.chunks == o.info.Chunks {
			return 0, o.end()
		}
		m, err := o.b.message(o.ctx, map[string]any{"seq": o.next, "next_by_subj": o.b.chunksOf(o.info.NUID)})
		if errors.Is(err, events.ErrNotFound) {
			err = o.gone()
		}
		if err != nil {
			return 0, fmt.Errorf("get blob %s: %w", o.info.Name, err)
		}
		o.chunk, o.next = m.Message.Data, m.Message.Sequence+1
		o.chunks++
		o.sum.Write(o.chunk)
		o.size += uint64(len(o.chunk))
	}
	n := copy(into, o.chunk)
	o.chunk = o.chunk[n:]
	return n, nil
}

// gone says why a chunk is not there.
func (o *readObject) gone() error {
	now, err := o.b.findBlob(o.ctx, o.info.Name)
	switch {
	case err != nil: // also if it was deleted
		return err
	case now.info.NUID != o.info.NUID:
		return errReplaced
	}
	return fmt.Errorf("%w: chunk %d of %d is gone", events.ErrDamaged, o.chunks+1, o.info.Chunks)
}

// digest of an object as its description has it.
func digest(sum []byte) string { return "SHA-256=" + base64.URLEncoding.EncodeToString(sum) }

func (o *readObject) end() error {
	if got := digest(o.sum.Sum(nil)); o.info.Digest != got || o.size != o.info.Size {
		return fmt.Errorf("get blob %s: %w: %d bytes of digest %s where %d of digest %s were stored",
			o.info.Name, events.ErrDamaged, o.size, got, o.info.Size, o.info.Digest)
	}
	return io.EOF
}

// List implements events.Blobs.
func (b *readBlobs) List(ctx context.Context, prefix string) ([]string, error) {
	var info *jetstream.StreamInfo
	err := b.ask(ctx, func(ctx context.Context) error {
		stream, err := b.s.js.Stream(ctx, b.stream())
		if err == nil {
			info, err = stream.Info(ctx, jetstream.WithSubjectFilter(b.subjectOf("")+">"))
		}
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("list blobs: %w", err)
	}
	var names []string
	for subject := range info.State.Subjects {
		name, err := base64.URLEncoding.DecodeString(strings.TrimPrefix(subject, b.subjectOf("")))
		if err == nil && strings.HasPrefix(string(name), prefix) {
			names = append(names, string(name))
		}
	}
	slices.Sort(names)
	return names, nil
}
