package pseudonyms

import (
	"bytes"
	"encoding/json"
	"errors"
	"maps"
	"slices"
	"strings"

	"millwright/planner/claim"
	"millwright/planner/drift"
	"millwright/planner/ledger"
	"millwright/planner/surge"
	"millwright/store/audit"
)

// learn takes what a decision comes to from renamed inputs for its record, if it is what is on record but for
// names: then the planners computed a name, or wrote a word that is one too.
func (b *renaming) learn(d audit.Divergence) bool {
	var r *record
	for i := range b.records {
		if b.records[i].Seq == d.Seq {
			r = &b.records[i]
		}
	}
	if r == nil {
		return false
	}
	x := again{}
	payload, explanation, err := b.decided(r, d)
	if err == nil {
		x.payload, err = json.Marshal(payload)
	}
	if err == nil {
		err = b.pairs(r.payload, x.payload)
	}
	if err == nil && len(r.Explanation) > 0 {
		if _, x.explanation, err = audit.Encode(nil, explanation); err == nil {
			err = b.pairs(r.Explanation, x.explanation)
		}
	}
	if err != nil {
		learned := b.harvest(r.payload, x.payload)
		was, planned := r.entry.Payload.(*ledger.ProvisioningPlanned)
		is, plannedAgain := payload.(*ledger.ProvisioningPlanned)
		if planned && plannedAgain {
			learned = b.learnRefused(d.Seq, was, is, x.payload) || learned
		}
		return learned
	}
	if old, ok := b.again[d.Seq]; ok && bytes.Equal(old.payload, x.payload) && bytes.Equal(old.explanation, x.explanation) {
		return false // it did not help
	}
	b.again[d.Seq] = x
	return true
}

var errUndecided = errors.New("nothing is decided")

// harvest learns sentences from a decision that came out otherwise: what follows from a refusal that was not
// planned again does so as long as the refusal has other words.
func (b *renaming) harvest(was, is []byte) bool {
	x, err := parse(was)
	y, err2 := parse(is)
	if err != nil || err2 != nil {
		return false
	}
	before, after, found := sentences(x, nil), sentences(y, nil), false
	for _, s := range before {
		if _, ok := b.sentences[s]; ok {
			continue
		}
		for _, t := range after {
			if b.alike(s, t) && t != b.sentence(s) {
				b.sentences[s], found = t, true
				break
			}
		}
	}
	return found
}

// learnRefused learns from pods that a decision refuses, and that its record does not name: planners name a
// refusal again if its words are others than before. Those are of a record, or of the checkpoint.
func (b *renaming) learnRefused(seq uint64, was, is *ledger.ProvisioningPlanned, payload []byte) bool {
	before := b.refusedBefore(seq)
	records := map[int]bool{}
	for _, r := range is.Refused {
		for _, p := range r.Pods {
			if i, ok := before[string(p.UID)]; ok {
				records[i] = true
			}
		}
	}
	learned := false
	for _, i := range slices.Sorted(maps.Keys(records)) {
		learned = b.harvest(b.records[i].payload, payload) || learned
	}
	return b.learnRefusals(was, is, before) || learned
}

// refusedBefore are the places of the last records that refused pods before another one, by renamed UID.
func (b *renaming) refusedBefore(seq uint64) map[string]int {
	last := map[string]int{}
	for i := range b.records {
		p, ok := b.records[i].entry.Payload.(*ledger.ProvisioningPlanned)
		if !ok || b.records[i].Seq >= seq {
			continue
		}
		for _, r := range p.Refused {
			for _, pod := range r.Pods {
				last[b.name(string(pod.UID))] = i
			}
		}
	}
	return last
}

// sentences of a document.
func sentences(v value, list []string) []string {
	switch x := v.(type) {
	case *object:
		for _, f := range x.fields {
			list = sentences(f.value, list)
		}
	case []value:
		for _, e := range x {
			list = sentences(e, list)
		}
	case string:
		if strings.Contains(x, " ") {
			list = append(list, x)
		}
	}
	return list
}

// decided is what a decision comes to from renamed inputs, with its explanation.
func (b *renaming) decided(r *record, d audit.Divergence) (payload, explanation any, err error) {
	if d.Decision != nil {
		if d.Decision.Kind != r.entry.Kind {
			return nil, nil, errOther
		}
		return d.Decision.Payload, d.Explanation, nil
	}
	renamed, err := b.json(r.payload)
	if err != nil {
		return nil, nil, err
	}
	payload = ledger.NewPayload(r.entry.Kind)
	if err := json.Unmarshal(renamed, payload); err != nil {
		return nil, nil, err
	}
	switch p := payload.(type) {
	case *ledger.ClaimDoomed:
		var in claim.Input
		if err := json.Unmarshal(p.Input, &in); err != nil {
			return nil, nil, err
		}
		got := claim.Next(in)
		q := claim.Payload(in, got)
		p.Reason, p.Message, p.Deadline, p.Unavailable, p.Failed = q.Reason, q.Message, q.Deadline, q.Unavailable, q.Failed
		return p, claim.Explain(in, got), nil
	case *ledger.DriftJudged:
		var in drift.Input
		if err := json.Unmarshal(p.Facts, &in); err != nil {
			return nil, nil, err
		}
		judged, why, err := drift.Record(in)
		if err != nil {
			return nil, nil, err
		}
		p.Claims = judged.Claims
		return p, why, nil
	case *ledger.SurgeDecided:
		for i := range p.Owners {
			p.Owners[i].Refused = surge.Refusal(&p.Owners[i].Facts)
		}
		return p, nil, nil
	}
	return nil, nil, errUndecided
}

var errOther = errors.New("it says something else")

// pairs compares a document with a renamed one: all but names is equal. Hashes that are in the place of each
// other are noted.
func (b *renaming) pairs(was, is []byte) error {
	x, err := parse(was)
	if err != nil {
		return err
	}
	y, err := parse(is)
	if err != nil {
		return err
	}
	found := map[string]string{}
	if err := b.compare(x, y, found); err != nil {
		return err
	}
	for k, v := range found {
		b.computed[k] = v
	}
	return nil
}

func (b *renaming) compare(was, is value, found map[string]string) error {
	switch x := was.(type) {
	case *object:
		y, ok := is.(*object)
		if !ok || len(x.fields) != len(y.fields) {
			return errOther
		}
		for i := range x.fields {
			if !b.alike(x.fields[i].name, y.fields[i].name) {
				return errOther
			}
			if x.fields[i].name == "digest" {
				continue // of a position
			}
			if err := b.compare(x.fields[i].value, y.fields[i].value, found); err != nil {
				return err
			}
		}
		return nil
	case []value:
		y, ok := is.([]value)
		if !ok || len(x) != len(y) {
			return errOther
		}
		for i := range x {
			if err := b.compare(x[i], y[i], found); err != nil {
				return err
			}
		}
		return nil
	case string:
		y, ok := is.(string)
		switch {
		case ok && b.alike(x, y):
			return nil
		case ok && isHash(x) && isHash(y) && len(x) == len(y):
			found[x] = y
			return nil
		}
		return errOther
	}
	if was != is {
		return errOther
	}
	return nil
}

func isHash(s string) bool {
	return len(s) == 16 && strings.Trim(s, "0123456789abcdef") == ""
}

// alike reports that a text is another one in which some names are replaced.
func (b *renaming) alike(was, is string) bool {
	if was == is {
		return true
	}
	type at struct{ i, j int }
	tried := map[at]bool{}
	var match func(i, j int) bool
	match = func(i, j int) bool {
		if i == len(was) {
			return j == len(is)
		}
		if tried[at{i, j}] {
			return false
		}
		tried[at{i, j}] = true
		if j < len(is) && was[i] == is[j] && match(i+1, j+1) {
			return true
		}
		for n := min(len(was)-i, nameMax*4); n > 0; n-- {
			p, ok := b.known(was[i : i+n])
			if ok && strings.HasPrefix(is[j:], p) && match(i+n, j+len(p)) {
				return true
			}
		}
		return false
	}
	return match(0, 0)
}

// known returns the pseudonym of a word or name that was collected.
func (b *renaming) known(s string) (string, bool) {
	if p, ok := b.computed[s]; ok {
		return p, true
	}
	if p, ok := b.pseudonyms.pseudonym[s]; ok {
		return p, true
	}
	return "", false
}
