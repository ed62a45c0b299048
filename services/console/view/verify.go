package view

import (
	"context"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"millwright/planner/ledger"
	"millwright/store"
	"millwright/store/audit"
	"millwright/store/audit/subjects"
)

// Events of a verification besides EventProgress.
const (
	EventHead   = "head"
	EventRecord = "record"
)

// Head is a signed head of the log, as a record carries it.
type Head struct {
	Record uint64            `json:"record"`
	Signed ledger.SignedHead `json:"signed"`
	// Hash of the record that was signed, as the log has it now, in hex; "": it was pruned.
	Hash string `json:"hash,omitempty"`
}

// RecordHash is the hash of a record, in hex; "": there is no such record.
type RecordHash struct {
	Seq  uint64 `json:"seq"`
	Hash string `json:"hash,omitempty"`
}

// Verified is what came of a verification.
type Verified struct {
	LogID string `json:"logID"`
	// Records is the last one whose place in the chain was checked, First the oldest that is at hand.
	Records uint64 `json:"records"`
	First   uint64 `json:"first"`
	// Broken names the first record that is not what it should be; "": the chain is whole.
	Broken string `json:"broken,omitempty"`
	// Seconds that it took.
	Seconds float64 `json:"seconds"`
}

// Verify checks the hash chain of the log, archived and live, and tells every signed head in it with the hash
// that the record has, for somebody who has the public key. record is one whose hash is told as well; 0:
// none. Errors are as of Plan.
func (v *View) Verify(ctx context.Context, who string, record uint64, tell Tell) (*Verified, error) {
	began := v.cfg.Now()
	return wholly(ctx, v, who, VerifyTimeMax, func(ctx context.Context) (*Verified, error) {
		x := &Verified{LogID: v.cfg.Log.ID()}
		if err := tell(EventProgress, Progress{}); err != nil {
			return nil, err
		}
		var err error
		if x.Records, err = v.cfg.Log.Verify(ctx); err != nil {
			if ctx.Err() != nil {
				return nil, err
			}
			x.Broken = err.Error()
			return x, nil
		}
		if record > 0 {
			hash, err := v.hashOf(ctx, record)
			if err == nil {
				err = tell(EventRecord, RecordHash{record, hash})
			}
			if err != nil {
				return nil, err
			}
		}
		if x.First, err = subjects.FirstAtHand(ctx, v.cfg.Log, 1, x.Records); err != nil {
			return nil, fmt.Errorf("find the first record: %w", err)
		}
		if err := v.tellHeads(ctx, x, tell); err != nil {
			return nil, err
		}
		x.Seconds = v.cfg.Now().Sub(began).Seconds()
		return x, nil
	})
}

// hashOf a record; "": it is not at hand.
func (v *View) hashOf(ctx context.Context, seq uint64) (string, error) {
	page, err := v.cfg.Log.Read(ctx, seq, 1)
	switch {
	case errors.Is(err, store.ErrCompacted):
		return "", nil
	case err != nil:
		return "", fmt.Errorf("read record %d: %w", seq, err)
	case len(page) == 0 || page[0].Seq != seq:
		return "", nil
	}
	return hex.EncodeToString(page[0].Hash[:]), nil
}

// tellHeads reads the log and tells what was signed.
func (v *View) tellHeads(ctx context.Context, x *Verified, tell Tell) error {
	p := newPace(ctx, tell, x.Records)
	log := pacedLog{v.cfg.Log, p}
	for next := x.First; next <= x.Records; {
		page, err := log.Read(ctx, next, 0)
		switch {
		case err != nil:
			return fmt.Errorf("read log from %d: %w", next, err)
		case len(page) == 0:
			return nil
		}
		for _, rec := range page {
			if ledger.Kind(rec.Kind) != ledger.KindLedgerCheckpoint {
				continue
			}
			var c ledger.LedgerCheckpoint
			if err := json.Unmarshal(rec.Payload, &c); err != nil {
				return fmt.Errorf("record %d: %w: %w", rec.Seq, audit.ErrPayload, err)
			}
			if c.Signed == nil {
				continue
			}
			h := Head{Record: rec.Seq, Signed: *c.Signed}
			if h.Signed.Time = h.Signed.Time.UTC(); h.Signed.Seq >= x.First {
				if h.Hash, err = v.hashOf(ctx, h.Signed.Seq); err != nil {
					return err
				}
			}
			if err := tell(EventHead, h); err != nil {
				return err
			}
		}
		next = page[len(page)-1].Seq + 1
		p.at.Record = next
	}
	return nil
}

// moment is a time, or as long before now as a span says; zero for nothing.
func moment(name, text string, now time.Time) (time.Time, error) {
	if text == "" {
		return time.Time{}, nil
	}
	if at, err := time.Parse(time.RFC3339, text); err == nil {
		return at, nil
	}
	d, err := time.ParseDuration(text)
	if err != nil || d <= 0 {
		return time.Time{}, fmt.Errorf("%w: %s %q: must be a span such as 2h, or a time as in 2026-03-02T10:00:00Z", ErrQuestion, name, text)
	}
	return now.Add(-d), nil
}
