package pseudonyms

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"strings"

	"millwright/events"
	"millwright/planner/ledger"
	"millwright/planner/world"
	"millwright/store"
	"millwright/store/audit"
	"millwright/store/audit/recording"
)

// ErrUnknown: something in the bundle is not known to this version, so that nobody can say what in it is a
// name. Use the version that wrote it.
var ErrUnknown = errors.New("not known to this version")

// source is what is in a bundle, decoded as far as names are looked for.
type source struct {
	in       *recording.Contents
	logID    string
	records  []record
	messages []message
	catalogs map[string]*events.Catalog
	// world and ledger are those that messages and records lead on from; ledger is nil if they begin the log.
	world  *world.World
	ledger *ledger.Ledger
}

// record of the log. What its payload holds that this version does not know is not in payload.
type record struct {
	store.Record
	payload []byte
	entry   ledger.Entry
}

// message of the stream; object is its observation's as JSON, nil if it has none.
type message struct {
	events.Message
	observation events.Observation
	object      []byte
}

func read(ctx context.Context, in *recording.Contents) (*source, error) {
	s := &source{in: in, logID: in.Manifest.LogID, catalogs: map[string]*events.Catalog{}}
	for _, rec := range in.Records {
		r, err := readRecord(rec)
		if err != nil {
			return nil, err
		}
		if g, ok := r.entry.Payload.(*ledger.Genesis); ok {
			s.logID = g.LogID
		}
		s.records = append(s.records, r)
	}
	for _, m := range in.Messages {
		read, err := readMessage(m)
		if err != nil {
			return nil, err
		}
		if read != nil {
			s.messages = append(s.messages, *read)
		}
	}
	for name, data := range in.StreamBlobs {
		if !strings.HasPrefix(name, "catalog/") {
			continue
		}
		c := &events.Catalog{}
		if err := json.Unmarshal(data, c); err != nil {
			return nil, fmt.Errorf("read catalogue %s: %w", name, err)
		}
		s.catalogs[name] = c
	}
	return s, s.readCheckpoints(ctx)
}

// readRecord keeps of a payload what its kind has.
func readRecord(rec store.Record) (record, error) {
	r := record{Record: rec}
	var err error
	if r.entry, err = audit.Decode(rec); err != nil {
		return r, err
	}
	if r.entry.Payload == nil {
		r.payload = []byte("null")
		if len(rec.Explanation) > 0 {
			return r, fmt.Errorf("explanation of record %d of kind %d: %w", rec.Seq, rec.Kind, ErrUnknown)
		}
		return r, nil
	}
	r.payload, err = json.Marshal(r.entry.Payload)
	return r, err
}

// readMessage returns nil for a message that cannot be decoded: no World holds it.
func readMessage(m events.Message) (*message, error) {
	o, err := events.Decode(m.Data)
	if errors.Is(err, events.ErrUnknownKind) {
		return nil, fmt.Errorf("message %d: %w: %w", m.Sequence, ErrUnknown, err)
	}
	if err != nil {
		return nil, nil
	}
	r := &message{Message: m, observation: o}
	if o.Object == nil {
		return r, nil
	}
	if r.object, err = json.Marshal(o.Object); err != nil {
		return nil, fmt.Errorf("encode message %d: %w", m.Sequence, err)
	}
	again, err := decodeAs(o.Object, r.object)
	if err != nil {
		return nil, fmt.Errorf("decode message %d: %w", m.Sequence, err)
	}
	if !same(o.Object, again) {
		return nil, fmt.Errorf("message %d: JSON does not hold all of the %s", m.Sequence, o.Kind)
	}
	return r, nil
}

// decodeAs returns a new object of the type of another one.
func decodeAs(like any, data []byte) (any, error) {
	object := reflect.New(reflect.TypeOf(like).Elem()).Interface()
	return object, json.Unmarshal(data, object)
}

// same reports that JSON lost nothing of an object that travels as protobuf.
func same(a, b any) bool {
	type message interface{ Marshal() ([]byte, error) }
	x, ok := a.(message)
	if !ok {
		return true
	}
	before, err := x.Marshal()
	after, err2 := b.(message).Marshal()
	return err == nil && err2 == nil && bytes.Equal(before, after)
}
