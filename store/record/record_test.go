package record

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"pgregory.net/rapid"

	"millwright/store"
)

// stored compares records as they are stored: what is empty is equal.
var stored = cmp.Options{cmpopts.EquateEmpty(), cmp.AllowUnexported(Content{}, Stored{})}

// example is the record that FORMAT.md works through.
func example(t testing.TB) Stored {
	t.Helper()
	p, err := Prepare(store.Draft{
		Time: time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC), Service: "provisioner", Mode: "active", Kind: 10,
		Subjects: []string{"pod/default/web-1", "pool/general"}, Causation: 3, PlannerVersion: 1,
		Position:  store.Position{Incarnation: "obs-1", Sequence: 512, Digest: 0x0123456789abcdef},
		LedgerSeq: 7, Now: time.Date(2026, 3, 1, 12, 0, 0, 500, time.UTC), OptionsSeq: 2,
		Payload: []byte(`{"claims":1}`), Advances: []string{"pool/general"},
	})
	if err != nil {
		t.Fatal(err)
	}
	return p.Seal(Place{Head: store.Head{Seq: 7, Hash: sha256.Sum256([]byte("record 7"))}})
}

func TestFormatDocumentShowsTheCanonicalForm(t *testing.T) {
	doc, err := os.ReadFile("../FORMAT.md")
	if err != nil {
		t.Fatal(err)
	}
	shown := strings.Join(strings.Fields(hexLines(string(doc))), "")
	s := example(t)
	if want := hex.EncodeToString(Canonical(s)); !strings.Contains(shown, want) {
		t.Errorf("FORMAT.md lacks the canonical form of the example:\n%s", dump(Canonical(s)))
	}
	if want := hex.EncodeToString(s.Hash[:]); !strings.Contains(string(doc), want) {
		t.Errorf("FORMAT.md lacks the hash of the example: %s", want)
	}
}

// hexLines takes the bytes out of the lines "0000  6d696c6c  comment" of the document.
func hexLines(doc string) string {
	var out strings.Builder
	for line := range strings.Lines(doc) {
		fields := strings.Fields(line)
		if len(fields) < 2 || len(fields[0]) != 4 {
			continue
		}
		if _, err := hex.DecodeString(fields[0]); err != nil {
			continue
		}
		if _, err := hex.DecodeString(fields[1]); err == nil {
			out.WriteString(fields[1] + "\n")
		}
	}
	return out.String()
}

func dump(b []byte) string {
	var out strings.Builder
	for i := 0; i < len(b); i += 16 {
		out.WriteString(hex.EncodeToString([]byte{byte(i >> 8), byte(i)}) + "  " + hex.EncodeToString(b[i:min(i+16, len(b))]) + "\n")
	}
	return out.String()
}

func TestMarshalAndUnmarshalAreInverse(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		d := drawDraft(rt)
		p, err := Prepare(d)
		if err != nil {
			rt.Fatal(err)
		}
		place := Place{Head: store.Head{Seq: rapid.Uint64Range(0, 1<<60).Draw(rt, "seq")}}
		want := p.Seal(place)
		data, err := Marshal(want)
		if err != nil {
			rt.Fatal(err)
		}
		if len(data) > p.Bytes() {
			rt.Fatalf("%d bytes, bounded by %d", len(data), p.Bytes())
		}
		got, err := Unmarshal(want.Seq, data)
		if err != nil {
			rt.Fatal(err)
		}
		if s := cmp.Diff(want, got, stored); s != "" {
			rt.Fatalf("(-sealed +read):\n%s", s)
		}
		if _, err := Unmarshal(want.Seq+1, data); !errors.Is(err, store.ErrCorrupt) {
			rt.Fatalf("read at another place: %v", err)
		}
	})
}

// Any field that changes changes the hash: records that differ never share a canonical form.
func TestCanonicalFormIsInjective(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		a, b := drawDraft(rt), drawDraft(rt)
		pa, errA := Prepare(a)
		pb, errB := Prepare(b)
		if errA != nil || errB != nil {
			rt.Fatal(errA, errB)
		}
		sa, sb := pa.Seal(Place{}), pb.Seal(Place{})
		same := cmp.Equal(sa, sb, cmpopts.EquateEmpty(), cmpopts.IgnoreUnexported(Content{}, Stored{}))
		if equal := bytes.Equal(Canonical(sa), Canonical(sb)); equal != same {
			rt.Fatalf("canonical forms equal: %t, records equal: %t", equal, same)
		}
	})
}

func TestLongContentHasTheSameHashWhereverItLies(t *testing.T) {
	d := store.Draft{Payload: bytes.Repeat([]byte("x"), store.MaxInlineBytes+1)}
	p, err := Prepare(d)
	if err != nil || !p.Payload.Blob {
		t.Fatalf("a long payload stays inline: %v", err)
	}
	inline := *p
	inline.Payload = Content{Data: d.Payload, Sum: p.Payload.Sum}
	if p.Seal(Place{}).Hash != inline.Seal(Place{}).Hash {
		t.Fatal("the hash depends on where the payload lies")
	}
}

// Records from before compression stay as they are, and a record's hash does not depend on whether it is
// compressed.
func TestCompressedContentHasTheSameHash(t *testing.T) {
	d := store.Draft{Payload: bytes.Repeat([]byte(`{"instanceType":"m5.large"}`), 100), Explanation: bytes.Repeat([]byte("why "), 100)}
	encoded := func(d store.Draft) (Stored, []byte) {
		p, err := Prepare(d)
		if err != nil {
			t.Fatal(err)
		}
		s := p.Seal(Place{})
		data, err := Marshal(s)
		if err != nil {
			t.Fatal(err)
		}
		return s, data
	}
	plain, long := encoded(d)
	d.Format = FormatPacked
	packed, short := encoded(d)
	d.Format = FormatWhole
	whole, shortest := encoded(d)
	if whole.Hash != plain.Hash {
		t.Error("the hash depends on how much is compressed")
	}
	if plain.Hash != packed.Hash {
		t.Error("the hash depends on compression")
	}
	if len(short)*4 > len(long) {
		t.Errorf("%d bytes became %d", len(long), len(short))
	}
	for name, data := range map[string][]byte{"plain": long, "compressed": short, "compressed as a whole": shortest} {
		got, err := Unmarshal(1, data)
		if err != nil || !bytes.Equal(got.Payload, d.Payload) || !bytes.Equal(got.Explanation, d.Explanation) {
			t.Errorf("%s: %v, payload of %d bytes", name, err, len(got.Payload))
		}
		again, err := Marshal(got)
		if err != nil || !bytes.Equal(again, data) {
			t.Errorf("%s: not the same bytes when it is archived: %v", name, err)
		}
	}
	if long[1] != FormatPlain || short[1] != FormatPacked || shortest[1] != FormatWhole {
		t.Errorf("formats %d, %d and %d", long[1], short[1], shortest[1])
	}
	small, _ := encoded(store.Draft{Payload: []byte("{}"), Format: FormatPacked})
	if small.PayloadContent.zstd != nil {
		t.Error("what is short was compressed")
	}
}

func TestNewerFormatIsRefused(t *testing.T) {
	data, err := Marshal(example(t))
	if err != nil {
		t.Fatal(err)
	}
	data = append(data, 0x08, Format+1) // which overrides the 1 before
	if _, err := Unmarshal(8, data); !errors.Is(err, store.ErrCorrupt) || !strings.Contains(err.Error(), fmt.Sprintf("format %d", Format+1)) {
		t.Fatalf("got %v", err)
	}
}

func TestUnknownFieldsAreIgnored(t *testing.T) {
	data, err := Marshal(example(t))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := Unmarshal(8, append(data, 0xc8, 0x3e, 0x01)); err != nil { // field 1001
		t.Fatal(err)
	}
}

// An earlier version than the writer's archives the bytes that are in the live log.
func TestUnknownFieldsAreKept(t *testing.T) {
	d := store.Draft{Kind: 10, Service: "lifecycle", Subjects: []string{strings.Repeat("node/a", 100)}, Payload: []byte(`{"a":"` + strings.Repeat("b", 1000) + `"}`)}
	for d.Format = FormatPlain; d.Format <= Format; d.Format++ {
		p, err := Prepare(d)
		if err != nil {
			t.Fatal(err)
		}
		data, err := Marshal(p.Seal(Place{}))
		if err != nil {
			t.Fatal(err)
		}
		data = append(data, 0xc8, 0x3e, 0x01) // field 1001
		s, err := Unmarshal(1, data)
		if err != nil {
			t.Fatal(err)
		}
		if again, err := Marshal(s); err != nil || !bytes.Equal(again, data) {
			t.Errorf("format %d: %d bytes are left of %d, %v", d.Format, len(again), len(data), err)
		}
	}
}

func TestGenesisIsReadBack(t *testing.T) {
	id := NewLogID()
	g, err := Genesis("prod", id, time.Now())
	if err != nil {
		t.Fatal(err)
	}
	if got, err := LogID(g, "prod"); err != nil || got != id {
		t.Fatalf("read %s, %v", got, err)
	}
	if _, err := LogID(g, "test"); !errors.Is(err, store.ErrForeignLog) {
		t.Fatalf("got %v", err)
	}
	if _, err := LogID(example(t), "prod"); !errors.Is(err, store.ErrCorrupt) {
		t.Fatalf("got %v", err)
	}
	if _, err := Genesis("prod", "short", time.Now()); err == nil {
		t.Fatal("took a short log-id")
	}
}

// FuzzUnmarshal: no bytes make the decoder panic, and what it takes is sound.
func FuzzUnmarshal(f *testing.F) {
	data, err := Marshal(example(f))
	if err != nil {
		f.Fatal(err)
	}
	f.Add(data)
	f.Add([]byte{})
	f.Add(data[:len(data)/2])
	f.Add(bytes.Replace(data, []byte("active"), []byte("shadow"), 1))
	f.Fuzz(func(t *testing.T, data []byte) {
		s, err := Unmarshal(8, data)
		if err != nil {
			if !errors.Is(err, store.ErrCorrupt) || !strings.Contains(err.Error(), "record 8:") {
				t.Fatalf("got %v", err)
			}
			return
		}
		if s.Seq != 8 || sha256.Sum256(Canonical(s)) != s.Hash {
			t.Fatalf("took an unsound record: %+v", s)
		}
	})
}

// content that is worth compressing, or not.
func content(rt *rapid.T, label string) []byte {
	b := rapid.SliceOfN(rapid.Byte(), 0, 40).Draw(rt, label)
	return bytes.Repeat(b, rapid.SampledFrom([]int{1, 1, 20}).Draw(rt, label+" times"))
}

func drawDraft(rt *rapid.T) store.Draft {
	texts := rapid.SliceOfN(rapid.SampledFrom([]string{"a", "b", "ab", "pod/x/y", "日本"}), 0, 3)
	when := rapid.Custom(func(rt *rapid.T) time.Time {
		if rapid.Bool().Draw(rt, "zero") {
			return time.Time{}
		}
		return time.Unix(rapid.Int64Range(-1e9, 4e9).Draw(rt, "s"), rapid.Int64Range(1, 999_999_999).Draw(rt, "ns"))
	})
	return store.Draft{
		Time: when.Draw(rt, "time"), Service: rapid.SampledFrom([]string{"", "a", "ab"}).Draw(rt, "service"),
		Mode: rapid.SampledFrom([]string{"active", "shadow"}).Draw(rt, "mode"), Kind: rapid.Uint16().Draw(rt, "kind"),
		Ignorable: rapid.Bool().Draw(rt, "ignorable"), Subjects: texts.Draw(rt, "subjects"), Causation: rapid.Uint64().Draw(rt, "causation"),
		PlannerVersion: rapid.Uint32().Draw(rt, "version"), LedgerSeq: rapid.Uint64().Draw(rt, "ledger"),
		Position: store.Position{Incarnation: "i", Sequence: rapid.Uint64().Draw(rt, "sequence"), Digest: rapid.Uint64().Draw(rt, "digest")},
		Now:      when.Draw(rt, "now"), OptionsSeq: rapid.Uint64().Draw(rt, "options"),
		Payload: content(rt, "payload"), Explanation: content(rt, "explanation"),
		Advances: texts.Draw(rt, "advances"), Format: rapid.IntRange(0, Format).Draw(rt, "format"),
	}
}

// A clock that is a little slow does not turn time back; a record from the future moves nobody.
func TestTimeIsRaisedALittleAtMost(t *testing.T) {
	at := time.Date(2026, 3, 2, 10, 0, 0, 0, time.UTC)
	for ahead, want := range map[time.Duration]time.Time{
		-time.Second: at, 0: at, store.ClockTolerance: at.Add(store.ClockTolerance), store.ClockTolerance + 1: at, 31 * 24 * time.Hour: at,
	} {
		p, err := Prepare(store.Draft{Time: at, Mode: "active", Kind: 4})
		if err != nil {
			t.Fatal(err)
		}
		if got := p.Seal(Place{Time: at.Add(ahead)}).Time; !got.Equal(want) {
			t.Errorf("after a record that is %s ahead: %s, want %s", ahead, got, want)
		}
	}
}

// Names that stand in subjects, advances and payload are stored once; what is packed and cannot be read is
// corrupt, as is what was changed.
func TestWholeRecordsAreShortAndTrusted(t *testing.T) {
	d := store.Draft{Time: time.Date(2026, 3, 2, 10, 0, 0, 0, time.UTC), Service: "lifecycle", Mode: "active", Kind: 24,
		Subjects: []string{"claim/general-3k5m0q7d2f", "node/ip-10-0-17-203.us-west-2.compute.internal"},
		Advances: []string{"claim/general-3k5m0q7d2f", "node/ip-10-0-17-203.us-west-2.compute.internal"},
		Payload:  []byte(`{"claim":"general-3k5m0q7d2f","node":"ip-10-0-17-203.us-west-2.compute.internal"}`)}
	size := map[int]int{}
	var data []byte
	for _, format := range []int{FormatPlain, FormatPacked, FormatWhole} {
		d.Format = format
		p, err := Prepare(d)
		if err != nil {
			t.Fatal(err)
		}
		s := p.Seal(Place{})
		if data, err = Marshal(s); err != nil {
			t.Fatal(err)
		}
		if size[format] = len(data); len(data) > p.Bytes() {
			t.Errorf("format %d: %d bytes, bounded by %d", format, len(data), p.Bytes())
		}
	}
	if size[FormatWhole] > 240 || size[FormatWhole] >= size[FormatPacked] {
		t.Errorf("%d bytes, %d as format 2, %d as format 1", size[FormatWhole], size[FormatPacked], size[FormatPlain])
	}
	for i := range data {
		changed := bytes.Clone(data)
		changed[i] ^= 0x10
		if s, err := Unmarshal(1, changed); err == nil && !bytes.Equal(Canonical(s), Canonical(mustUnmarshal(t, data))) {
			t.Errorf("byte %d was changed and nobody saw it", i)
		} else if err != nil && !errors.Is(err, store.ErrCorrupt) {
			t.Errorf("byte %d was changed: %v", i, err)
		}
	}
}

func mustUnmarshal(t *testing.T, data []byte) Stored {
	t.Helper()
	s, err := Unmarshal(1, data)
	if err != nil {
		t.Fatal(err)
	}
	return s
}
