package audit

import (
	"slices"
	"strings"
	"testing"

	"millwright/planner/ledger"
)

// leavingLog is a log in which node a is drained because somebody deleted its NodeClaim, b because a command
// takes it, c because it expires, d because somebody deleted its NodeClaim before the command that takes it
// did, unlike e; f before the command that takes it is confirmed, g after that but before its reason is
// written, h after its command was rolled back. Each of a, b and c has one pod, and that of c is not in a
// tier.
func leavingLog() []ledger.Entry {
	ref := func(name string) []ledger.PodRef { return []ledger.PodRef{{Namespace: "shop", Name: name}} }
	entries := []ledger.Entry{
		{Kind: ledger.KindCommandStarted, Payload: &ledger.CommandStarted{Reason: "Drifted", Method: "drift", Candidates: []ledger.Candidate{{Node: "b", Claim: "cb"}}}},
		{Kind: ledger.KindDrainStarted, Payload: &ledger.DrainStarted{Node: "a", Claim: "ca", Reason: forceful}},
		{Kind: ledger.KindDrainTierStarted, Payload: &ledger.DrainTierStarted{Node: "a", Tier: 1, Evict: slices.Concat(ref("one"), ref("other"))}},
		{Kind: ledger.KindDrainStarted, Payload: &ledger.DrainStarted{Node: "b", Claim: "cb", Reason: "Drifted"}},
		{Kind: ledger.KindDrainTierStarted, Payload: &ledger.DrainTierStarted{Node: "b", Tier: 1, Held: ref("two")}},
		{Kind: ledger.KindClaimDoomed, Payload: &ledger.ClaimDoomed{Claim: "cc", Reason: "expired"}},
		{Kind: ledger.KindDrainStarted, Payload: &ledger.DrainStarted{Node: "c", Claim: "cc", Reason: forceful}},
		{Kind: ledger.KindNodeDrained, Payload: &ledger.NodeDrained{Node: "c", Claim: "cc", Evicted: ref("three")}},
		{Kind: ledger.KindClaimClosed, Payload: &ledger.ClaimClosed{Claim: "ca", Reason: "deleted"}},
		{Kind: ledger.KindDrainTierStarted, Payload: &ledger.DrainTierStarted{Node: "c", Tier: 1, Evicted: ref("four")}},
		{Kind: ledger.KindDrainEnded, Payload: &ledger.DrainEnded{Node: "c", Evicted: ref("five")}},
		{Kind: ledger.KindCommandStarted, Payload: &ledger.CommandStarted{Reason: "Drifted", Method: "drift", Candidates: []ledger.Candidate{{Node: "d", Claim: "cd"}},
			Replacements: []ledger.PlannedClaim{{NodePool: "pool"}}}},
		{Kind: ledger.KindClaimCreated, Payload: &ledger.ClaimCreated{Claim: ledger.ClaimName("log", "pool", 12, 0)}},
		{Kind: ledger.KindDrainStarted, Payload: &ledger.DrainStarted{Node: "d", Claim: "cd", Reason: "Drifted"}},
		{Kind: ledger.KindCommandStarted, Payload: &ledger.CommandStarted{Reason: "Drifted", Method: "drift", Candidates: []ledger.Candidate{{Node: "e", Claim: "ce"}},
			Replacements: []ledger.PlannedClaim{{NodePool: "pool"}}}},
		{Kind: ledger.KindClaimCreated, Payload: &ledger.ClaimCreated{Claim: ledger.ClaimName("log", "pool", 15, 0)}},
		{Kind: ledger.KindClaimInitialized, Payload: &ledger.ClaimInitialized{Claim: ledger.ClaimName("log", "pool", 15, 0)}},
		{Kind: ledger.KindDrainStarted, Payload: &ledger.DrainStarted{Node: "e", Claim: "ce", Reason: "Drifted"}},
		{Kind: ledger.KindCommandStarted, Payload: &ledger.CommandStarted{Reason: "Empty", Method: "emptiness",
			Candidates: []ledger.Candidate{{Node: "f", Claim: "cf"}, {Node: "g", Claim: "cg"}}}},
		{Kind: ledger.KindDrainStarted, Payload: &ledger.DrainStarted{Node: "f", Claim: "cf", Reason: forceful}},
		{Kind: ledger.KindCommandConfirmed, Payload: &ledger.CommandConfirmed{ID: ledger.CommandID("log", 19)}},
		{Kind: ledger.KindDrainStarted, Payload: &ledger.DrainStarted{Node: "g", Claim: "cg", Reason: forceful}},
		{Kind: ledger.KindCommandStarted, Payload: &ledger.CommandStarted{Reason: "Empty", Method: "emptiness", Candidates: []ledger.Candidate{{Node: "h", Claim: "ch"}}}},
		{Kind: ledger.KindCommandConfirmed, Payload: &ledger.CommandConfirmed{ID: ledger.CommandID("log", 23)}},
		{Kind: ledger.KindCommandRolledBack, Payload: &ledger.CommandRolledBack{ID: ledger.CommandID("log", 23)}},
		{Kind: ledger.KindDrainStarted, Payload: &ledger.DrainStarted{Node: "h", Claim: "ch", Reason: forceful}},
	}
	for i := range entries {
		entries[i].Seq = uint64(i) + 1
	}
	return entries
}

// A pod's story says what emptied the node that it had to leave, and what became of the pod itself; it is the
// same when only the records are known that mention one of its subjects.
func TestAPodsStorySaysWhyItHadToLeave(t *testing.T) {
	entries := leavingLog()
	for pod, want := range map[string][]string{
		"pod/shop/one":   {"drain of node a started", "drain of node a, tier 1 with 1 other pods: shop/one is evicted"},
		"pod/shop/two":   {"takes 1 node(s): b", "drain of node b started (Drifted)", "shop/two must not be evicted, and is waited for"},
		"pod/shop/three": {"NodeClaim cc must go: expired", "drain of node c started", "pod shop/three was evicted as the API server listed it"},
		"pod/shop/four":  {"NodeClaim cc must go: expired", "drain of node c started", "pod shop/four was evicted before, as the API server listed it"},
		"pod/shop/five":  {"NodeClaim cc must go: expired", "drain of node c started", "node c is gone: pod shop/five was evicted as the API server listed it"},
	} {
		known := []string{pod}
		var found []ledger.Entry
		for range 4 {
			found = slices.DeleteFunc(slices.Clone(entries), func(e ledger.Entry) bool {
				return !slices.ContainsFunc(Mentions(e, "log"), func(s string) bool { return slices.Contains(known, s) })
			})
			known = Linked(found, "log", pod)
		}
		for _, lines := range [][]Line{WhyOf(entries, "log", pod), WhyOf(found, "log", pod)} {
			if len(lines) != len(want) {
				t.Errorf("%s: %d lines, want %d: %v", pod, len(lines), len(want), lines)
				continue
			}
			for i := range want {
				if !strings.Contains(lines[i].Text, want[i]) {
					t.Errorf("%s: line %d is %q, want %q", pod, i, lines[i].Text, want[i])
				}
			}
		}
	}
}

// Of a node whose NodeClaim somebody deleted the story says that no record asks for it; of others it does
// not.
func TestWhatSomebodyElseDeletedIsSaidSo(t *testing.T) {
	for node, want := range map[string]bool{"node/a": true, "claim/ca": true, "node/b": false, "node/c": false, "node/d": true, "node/e": false, "node/f": true, "node/g": false, "node/h": true} {
		n := 0
		for _, l := range WhyOf(leavingLog(), "log", node) {
			n += strings.Count(strings.Join(l.Details, "\n"), "somebody else deleted")
		}
		if n > 0 != want {
			t.Errorf("%s: said %d times", node, n)
		}
	}
}
