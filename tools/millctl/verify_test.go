package main

import (
	"context"
	"crypto/ed25519"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"millwright/planner/ledger"
	"millwright/store/audit"
	"millwright/store/audit/heads"
	"millwright/store/etcdlog"
	etcdembedded "millwright/store/etcdlog/embedded"
)

// keyFile writes a key, and returns its path.
func keyFile(t *testing.T, kind string, der []byte, err error) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "key.pem")
	if err == nil {
		err = os.WriteFile(path, pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}), 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
	return path
}

// keys makes a private and a public key.
func keys(t *testing.T) (private, public string) {
	t.Helper()
	pub, key, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	der, err := x509.MarshalPKCS8PrivateKey(key)
	private = keyFile(t, "PRIVATE KEY", der, err)
	der, err = x509.MarshalPKIXPublicKey(pub)
	return private, keyFile(t, "PUBLIC KEY", der, err)
}

func TestVerifyTellsWhatIsSigned(t *testing.T) {
	private, public := keys(t)
	_, stranger := keys(t)
	dir, _ := archived(t)
	signCheckpoint(t, dir, private)
	out, err := millctl(dir, "verify", "--public-key", public)
	if err != nil || !strings.Contains(out, "signed up to record 32 by key") || !strings.Contains(out, "1 records are not signed yet") {
		t.Fatalf("%v\n%s", err, out)
	}
	_, head, _ := strings.Cut(out, "\nhead ")
	head = strings.TrimSpace(head)
	if out, err := millctl(dir, "verify", "--head", head); err != nil || !strings.Contains(out, "goes on from the head given") {
		t.Errorf("%v\n%s", err, out)
	}
	other := head[:len(head)-4] + strings.Map(func(r rune) rune { return '0' + (r-'0'+1)%10 }, "1234")
	for want, args := range map[string][]string{
		"none of those given":         {"--public-key", stranger},
		"not the one that was signed": {"--head", other},
		"record 99 is missing":        {"--head", "99:" + strings.Repeat("0", 64)},
		"read public keys":            {"--public-key", keyFile(t, "", nil, nil)},
	} {
		if _, err := millctl(dir, append([]string{"verify"}, args...)...); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v: %v, want %q", args, err, want)
		}
	}
	unsigned, _ := archived(t)
	if _, err := millctl(unsigned, "verify", "--public-key", public); err == nil || !strings.Contains(err.Error(), "no head of the log is signed") {
		t.Errorf("an unsigned log: %v", err)
	}
}

// signCheckpoint appends a checkpoint with a signed head.
func signCheckpoint(t *testing.T, dir, private string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	server, err := etcdembedded.Start(filepath.Join(dir, "etcd"))
	if err != nil {
		t.Fatal(err)
	}
	defer server.Close()
	log, err := etcdlog.Open(ctx, etcdlog.Config{Client: server.Client, Cluster: "test"})
	if err != nil {
		t.Fatal(err)
	}
	defer log.Close()
	signer, err := heads.NewSigner(private, log.ID())
	if err != nil {
		t.Fatal(err)
	}
	head, err := log.Head(ctx)
	if err != nil {
		t.Fatal(err)
	}
	p := &ledger.LedgerCheckpoint{Seq: head.Seq, Blob: strings.Repeat("0", 64)}
	if p.Signed, err = signer.Sign(ctx, head, time.Now()); err != nil {
		t.Fatal(err)
	}
	draft, err := audit.OutcomeDraft(audit.Outcome{Kind: ledger.KindLedgerCheckpoint, Payload: p})
	if err == nil {
		_, err = log.Append(ctx, draft)
	}
	if err != nil {
		t.Fatal(err)
	}
}
