package retention_test

import (
	"crypto/ed25519"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/rs/zerolog"

	"millwright/services/internal/retention"
	"millwright/store/audit/heads"
	"millwright/store/memlog"
)

func pemFile(t *testing.T, kind string, der []byte, err error) string {
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

// Each checkpoint carries the head signed; one is written without, and counted, while the key cannot be read.
func TestCheckpointsCarryASignedHead(t *testing.T) {
	public, private, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	der, err := x509.MarshalPKCS8PrivateKey(private)
	key := pemFile(t, "PRIVATE KEY", der, err)
	der, err = x509.MarshalPKIXPublicKey(public)
	keys, err := heads.PublicKeys(pemFile(t, "PUBLIC KEY", der, err))
	if err != nil {
		t.Fatal(err)
	}
	log := memlog.New("test")
	r := lead(t, log, memlog.NewElector(log))
	signer, err := heads.NewSigner(key, log.ID())
	if err != nil {
		t.Fatal(err)
	}
	registry := prometheus.NewRegistry()
	k := retention.New(retention.Config{Host: r.host, Log: r.log, Signer: signer, Policy: retention.Policy{Every: 50}, Logger: zerolog.Nop(), Registerer: registry})
	steps := []func(){func() {}, func() { _ = os.Rename(key, key+".away") }, func() { _ = os.Rename(key+".away", key) }}
	for _, step := range steps {
		step()
		r.live(40)
		r.keep(k)
	}
	list := checkpoints(t, log)
	if len(list) != 3 || list[0].Signed == nil || list[1].Signed != nil || list[2].Signed == nil {
		t.Fatalf("%d checkpoints: %+v", len(list), list)
	}
	const counted = "# HELP millwright_log_signing_failures_total Checkpoints whose head should have been signed and was not.\n" +
		"# TYPE millwright_log_signing_failures_total counter\nmillwright_log_signing_failures_total 1\n"
	if err := testutil.GatherAndCompare(registry, strings.NewReader(counted), "millwright_log_signing_failures_total"); err != nil {
		t.Error(err)
	}
	records, err := log.Read(bounded(t), 1, 1<<20)
	if err != nil {
		t.Fatal(err)
	}
	checker := heads.NewChecker(log, keys)
	for _, rec := range records {
		if err := checker.Add(rec); err != nil {
			t.Fatal(err)
		}
	}
	if newest, err := checker.Finish(bounded(t), 1); err != nil || newest.Seq < list[0].Seq {
		t.Errorf("signed up to %d, the checkpoint is of %d: %v", newest.Seq, list[0].Seq, err)
	}
}
