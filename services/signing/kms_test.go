package signing

import (
	"context"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"

	"millwright/planner/ledger"
	"millwright/store"
	"millwright/store/audit/heads"
	"millwright/store/memlog"
)

// account is a server that signs as KMS does. before may answer in its place.
type account struct {
	public  any
	private ed25519.PrivateKey
	calls   map[string]int
	before  func(w http.ResponseWriter, operation string) bool
}

func (a *account) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	_, operation, _ := strings.Cut(r.Header.Get("X-Amz-Target"), ".")
	var in struct {
		KeyId, MessageType, SigningAlgorithm string
		Message                              []byte
	}
	if err := json.NewDecoder(r.Body).Decode(&in); err != nil || in.KeyId != "alias/log" {
		http.Error(w, `{"__type":"NotFoundException"}`, http.StatusBadRequest)
		return
	}
	a.calls[operation]++
	if a.before != nil && a.before(w, operation) {
		return
	}
	w.Header().Set("Content-Type", "application/x-amz-json-1.1")
	switch operation {
	case "GetPublicKey":
		der, _ := x509.MarshalPKIXPublicKey(a.public)
		_ = json.NewEncoder(w).Encode(map[string]any{"KeyId": in.KeyId, "KeySpec": "ECC_NIST_EDWARDS25519", "PublicKey": der})
	case "Sign":
		if in.MessageType != "RAW" || in.SigningAlgorithm != "ED25519_SHA_512" {
			http.Error(w, `{"__type":"ValidationException"}`, http.StatusBadRequest)
			return
		}
		_ = json.NewEncoder(w).Encode(map[string]any{"KeyId": in.KeyId, "Signature": ed25519.Sign(a.private, in.Message)})
	}
}

func newAccount(t *testing.T) (*account, *KMS) {
	t.Helper()
	public, private, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	a := &account{public: public, private: private, calls: map[string]int{}}
	server := httptest.NewServer(a)
	t.Cleanup(server.Close)
	return a, NewKMS(aws.Config{Region: "us-west-2", BaseEndpoint: aws.String(server.URL), Credentials: credentials.NewStaticCredentialsProvider("a", "b", "")}, "alias/log")
}

// What the key in KMS signs verifies with its public key as with one from a file.
func TestAHeadSignedByKMSVerifies(t *testing.T) {
	a, key := newAccount(t)
	log := memlog.New("test")
	signer := heads.NewRemoteSigner(key, log.ID())
	for range 2 {
		head, err := log.Head(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		signed, err := signer.Sign(t.Context(), head, time.Now())
		if err != nil {
			t.Fatal(err)
		}
		data, _ := json.Marshal(&ledger.LedgerCheckpoint{Seq: head.Seq, Signed: signed})
		if _, err := log.Append(t.Context(), store.Draft{Time: time.Now(), Service: "lifecycle", Mode: "active", Kind: uint16(ledger.KindLedgerCheckpoint), Ignorable: true, Payload: data}); err != nil {
			t.Fatal(err)
		}
	}
	if a.calls["GetPublicKey"] != 1 || a.calls["Sign"] != 2 {
		t.Errorf("%v", a.calls)
	}
	der, _ := x509.MarshalPKIXPublicKey(a.public)
	path := filepath.Join(t.TempDir(), "public.pem")
	if err := os.WriteFile(path, pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: der}), 0o600); err != nil {
		t.Fatal(err)
	}
	keys, err := heads.PublicKeys(path)
	if err != nil {
		t.Fatal(err)
	}
	checker := heads.NewChecker(log, keys)
	records, err := log.Read(t.Context(), 1, 10)
	if err != nil {
		t.Fatal(err)
	}
	for _, rec := range records {
		if err := checker.Add(rec); err != nil {
			t.Fatal(err)
		}
	}
	if newest, err := checker.Finish(t.Context(), 1); err != nil || newest.Seq != 2 {
		t.Errorf("signed up to %d: %v", newest.Seq, err)
	}
}

func TestWhatKMSAnswersIsNotTakenForASignature(t *testing.T) {
	other, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	for want, change := range map[string]func(*account){
		"is no signature of it by this key": func(a *account) { _, a.private, _ = ed25519.GenerateKey(rand.Reader) },
		"want ECC_NIST_EDWARDS25519":        func(a *account) { a.public = &other.PublicKey },
		"DisabledException": func(a *account) {
			a.before = func(w http.ResponseWriter, operation string) bool {
				if operation == "Sign" {
					w.Header().Set("X-Amzn-ErrorType", "DisabledException")
					http.Error(w, `{"__type":"DisabledException","message":"it is disabled"}`, http.StatusBadRequest)
				}
				return operation == "Sign"
			}
		},
	} {
		a, key := newAccount(t)
		change(a)
		if _, err := heads.NewRemoteSigner(key, "id").Sign(t.Context(), store.Head{Seq: 7}, time.Now()); err == nil || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), "record 7") {
			t.Errorf("%s: %v", want, err)
		}
	}
}

func TestAThrottledSignatureIsAskedForAgainAndOneThatHangsEnds(t *testing.T) {
	a, key := newAccount(t)
	var throttled atomic.Int64
	a.before = func(w http.ResponseWriter, operation string) bool {
		if operation != "Sign" || throttled.Add(1) > 1 {
			return false
		}
		w.Header().Set("X-Amzn-ErrorType", "ThrottlingException")
		http.Error(w, `{"__type":"ThrottlingException"}`, http.StatusBadRequest)
		return true
	}
	signer := heads.NewRemoteSigner(key, "id")
	if _, err := signer.Sign(t.Context(), store.Head{Seq: 7}, time.Now()); err != nil {
		t.Error(err)
	}
	released := make(chan struct{})
	a.before = func(http.ResponseWriter, string) bool { <-released; return true }
	defer close(released)
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	if _, err := signer.Sign(ctx, store.Head{Seq: 7}, time.Now()); err == nil {
		t.Error("it signed")
	}
}
