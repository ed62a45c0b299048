package record

import (
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"regexp"
	"time"

	"millwright/store"
)

// genesis is the payload of record 1.
type genesis struct {
	LogID   string `json:"logID"`
	Cluster string `json:"cluster"`
}

var logIDForm = regexp.MustCompile(`^[0-9a-f]{32}$`)

// NewLogID returns a random log-id.
func NewLogID() string {
	var id [16]byte
	_, _ = rand.Read(id[:]) // never fails since Go 1.24
	return hex.EncodeToString(id[:])
}

// Genesis is record 1 of the log with this id.
func Genesis(cluster, logID string, now time.Time) (Stored, error) {
	if !logIDForm.MatchString(logID) {
		return Stored{}, fmt.Errorf("log-id %q is not 32 hex digits", logID)
	}
	payload, err := json.Marshal(genesis{LogID: logID, Cluster: cluster})
	if err != nil {
		return Stored{}, fmt.Errorf("encode genesis: %w", err)
	}
	p, err := Prepare(store.Draft{Time: now, Mode: "active", Kind: store.KindGenesis, Payload: payload})
	if err != nil {
		return Stored{}, err
	}
	return p.Seal(Place{}), nil
}

// LogID reads record 1. It returns ErrForeignLog if the log belongs to a cluster other than the one named.
func LogID(s Stored, cluster string) (string, error) {
	var g genesis
	if s.Seq != 1 || s.Kind != store.KindGenesis {
		return "", fmt.Errorf("record %d of kind %d is not a genesis: %w", s.Seq, s.Kind, store.ErrCorrupt)
	}
	if err := json.Unmarshal(s.PayloadContent.Data, &g); err != nil || !logIDForm.MatchString(g.LogID) {
		return "", fmt.Errorf("record 1: no log-id: %w", store.ErrCorrupt)
	}
	if g.Cluster != cluster {
		return "", fmt.Errorf("log of cluster %q opened as %q: %w", g.Cluster, cluster, store.ErrForeignLog)
	}
	return g.LogID, nil
}
