package heads

import (
	"context"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"millwright/planner/ledger"
	"millwright/store"
	"millwright/store/memlog"
)

// pair writes a new key and its public key to files.
func pair(t *testing.T) (private, public string) {
	t.Helper()
	pub, key, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	return write(t, "PRIVATE KEY", must(x509.MarshalPKCS8PrivateKey(key))), write(t, "PUBLIC KEY", must(x509.MarshalPKIXPublicKey(pub)))
}

func write(t *testing.T, kind string, der []byte) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "key.pem")
	if err := os.WriteFile(path, pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}

var ctx = context.Background()

var start = time.Date(2031, 1, 1, 0, 0, 0, 0, time.UTC)

// grow appends n records.
func grow(log *memlog.Log, what string, n int) {
	for i := range n {
		must(log.Append(ctx, store.Draft{Time: start, Kind: uint16(ledger.KindAlarmRaised), Payload: fmt.Appendf(nil, `{"reason":"%s","message":"%d"}`, what, i)}))
	}
}

// sign appends a checkpoint with the head signed by the key in a file, and returns it as millctl prints it.
func sign(log *memlog.Log, key string) string {
	signed := must(must(NewSigner(key, log.ID())).Sign(ctx, must(log.Head(ctx)), start))
	carry(log, signed)
	return fmt.Sprintf("%d:%s", signed.Seq, signed.Hash)
}

func carry(log *memlog.Log, signed *ledger.SignedHead) {
	must(log.Append(ctx, store.Draft{Time: start, Kind: uint16(ledger.KindLedgerCheckpoint), Payload: must(json.Marshal(ledger.LedgerCheckpoint{Signed: signed}))}))
}

// again appends the records of a log from a sequence on, as somebody would who owns the database: those that
// change returns, with a chain that is whole.
func again(to *memlog.Log, from *memlog.Log, seq uint64, change func(store.Record) (payload []byte, keep bool)) {
	for _, r := range must(from.Read(ctx, seq, 1000)) {
		if payload, keep := change(r); keep {
			must(to.Append(ctx, store.Draft{Time: r.Time, Kind: r.Kind, Payload: payload}))
		}
	}
}

func checked(log *memlog.Log, public ...string) (ledger.SignedHead, *Checker, error) {
	var keys []Key
	for _, path := range public {
		keys = append(keys, must(PublicKeys(path))...)
	}
	if _, err := log.Verify(ctx); err != nil {
		return ledger.SignedHead{}, nil, err
	}
	c := NewChecker(log, keys)
	for _, r := range must(log.Read(ctx, 1, 1000)) {
		if err := c.Add(r); err != nil {
			return ledger.SignedHead{}, c, err
		}
	}
	newest, err := c.Finish(ctx, 1)
	return newest, c, err
}

func TestASignedLogIsTheOneThatWasSigned(t *testing.T) {
	private, public := pair(t)
	log := memlog.New("test")
	grow(log, "a", 5)
	sign(log, private)
	grow(log, "b", 5)
	noted := sign(log, private)
	grow(log, "c", 3)
	newest, c, err := checked(log, public)
	if err != nil || newest.Seq != 12 || fmt.Sprintf("%d:%s", newest.Seq, newest.Hash) != noted || !newest.Time.Equal(start) {
		t.Errorf("newest %+v, %v", newest, err)
	}
	if err := c.Holds(ctx, noted); err != nil {
		t.Error(err)
	}
}

// Who owns the database makes the chain whole again after each of these.
func TestWhatWasChangedSinceItWasSignedIsFound(t *testing.T) {
	private, public := pair(t)
	strange, _ := pair(t)
	log := memlog.New("test")
	grow(log, "a", 4)
	early := log.Copy()
	grow(log, "b", 4)
	sign(log, private)
	grow(log, "c", 4)
	as := func(r store.Record) ([]byte, bool) { return r.Payload, true }
	for name, c := range map[string]struct {
		change func(r store.Record) ([]byte, bool)
		then   func(l *memlog.Log)
		want   string
	}{
		"a record is changed": {func(r store.Record) ([]byte, bool) {
			if r.Seq == 7 {
				return []byte(`{"reason":"other"}`), true
			}
			return r.Payload, true
		}, nil, "record 9 has the hash"},
		"a record is dropped": {func(r store.Record) ([]byte, bool) { return r.Payload, r.Seq != 7 }, nil, "later record"},
		"a record is dropped and another added": {func(r store.Record) ([]byte, bool) {
			if r.Seq == 7 {
				return []byte(`{}`), true
			}
			return r.Payload, true
		}, nil, "record 9 has the hash"},
		"the signature is taken away": {func(r store.Record) ([]byte, bool) {
			return r.Payload, ledger.Kind(r.Kind) != ledger.KindLedgerCheckpoint
		}, nil, ErrUnsigned.Error()},
		"the head is signed by a stranger": {as, func(l *memlog.Log) { sign(l, strange) }, "none of those given"},
		"the signature is made up": {as, func(l *memlog.Log) {
			signed := must(must(NewSigner(private, l.ID())).Sign(ctx, must(l.Head(ctx)), start))
			signed.Seq--
			carry(l, signed)
		}, "did not make it"},
		"the signature is of another log": {as, func(l *memlog.Log) {
			carry(l, must(must(NewSigner(private, "other")).Sign(ctx, must(l.Head(ctx)), start)))
		}, "did not make it"},
	} {
		forged := early.Copy()
		again(forged, log, 6, c.change)
		if c.then != nil {
			c.then(forged)
		}
		_, _, err := checked(forged, public)
		if err == nil || !strings.Contains(err.Error(), c.want) || !errors.Is(err, ErrForged) && !errors.Is(err, ErrUnsigned) {
			t.Errorf("%s: %v, want %q", name, err, c.want)
		}
	}
	if _, _, err := checked(log, public); err != nil {
		t.Errorf("the log itself: %v", err)
	}
}

// A log that ends early is whole and signed: only a head that was kept elsewhere shows what is missing.
func TestAHeadKeptElsewhereShowsACutTailAndAnOldBackup(t *testing.T) {
	private, public := pair(t)
	log := memlog.New("test")
	grow(log, "a", 4)
	sign(log, private)
	backup := log.Copy()
	grow(log, "b", 4)
	noted := sign(log, private)
	_, c, err := checked(backup, public)
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Holds(ctx, noted); !errors.Is(err, ErrForged) {
		t.Errorf("the tail is cut: %v", err)
	}
	grow(backup, "since", 10)
	sign(backup, private)
	if _, c, err = checked(backup, public); err != nil {
		t.Fatal(err)
	}
	if err := c.Holds(ctx, noted); !errors.Is(err, ErrForged) {
		t.Errorf("it was restored from a backup: %v", err)
	}
	if err := c.Holds(ctx, "12"); err == nil || errors.Is(err, ErrForged) {
		t.Errorf("no head: %v", err)
	}
}

func TestKeysChange(t *testing.T) {
	oldKey, oldPublic := pair(t)
	newKey, newPublic := pair(t)
	log := memlog.New("test")
	signer := must(NewSigner(oldKey, log.ID()))
	grow(log, "a", 3)
	carry(log, must(signer.Sign(ctx, must(log.Head(ctx)), start)))
	if err := os.WriteFile(oldKey, must(os.ReadFile(newKey)), 0o600); err != nil { // as the kubelet does with a Secret
		t.Fatal(err)
	}
	grow(log, "b", 3)
	carry(log, must(signer.Sign(ctx, must(log.Head(ctx)), start)))
	both := filepath.Join(t.TempDir(), "both.pem")
	if err := os.WriteFile(both, append(must(os.ReadFile(oldPublic)), must(os.ReadFile(newPublic))...), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, public := range [][]string{{oldPublic, newPublic}, {both}} {
		if newest, _, err := checked(log, public...); err != nil || newest.Seq != 8 {
			t.Errorf("%v: %+v, %v", public, newest, err)
		}
	}
	for _, public := range []string{oldPublic, newPublic} {
		if _, _, err := checked(log, public); !errors.Is(err, ErrForged) {
			t.Errorf("with one key: %v", err)
		}
	}
}

func TestFilesThatHoldNoKey(t *testing.T) {
	private, public := pair(t)
	other := write(t, "PRIVATE KEY", must(x509.MarshalPKCS8PrivateKey(must(ecdsa.GenerateKey(elliptic.P256(), rand.Reader)))))
	empty := write(t, "X", nil)
	for _, path := range []string{public, other, empty, filepath.Join(t.TempDir(), "none")} {
		if _, err := NewSigner(path, "id"); err == nil {
			t.Errorf("%s signs", path)
		}
	}
	for _, path := range []string{private, empty, filepath.Join(t.TempDir(), "none")} {
		if _, err := PublicKeys(path); err == nil {
			t.Errorf("%s checks", path)
		}
	}
}
