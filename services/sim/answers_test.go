package sim

import (
	"flag"
	"regexp"
	"slices"
	"strings"
	"testing"

	"millwright/services/sim/witness"
	"millwright/store/audit"
	"millwright/store/audit/subjects"
)

var answers = flag.Int("answers", 700, "how many launches, removals and refusals to ask about")

// teller answers as `millctl why` does, by the index beside the archive.
func teller(t *testing.T, r Result) witness.Tell {
	t.Helper()
	x, err := subjects.Open(t.TempDir(), r.Log.ID())
	if err == nil {
		err = x.Update(t.Context(), r.Log)
	}
	if err != nil {
		t.Fatal(err)
	}
	return func(subject string) ([]audit.Line, error) {
		lines, _, _, err := x.Story(t.Context(), r.Log, subject)
		return lines, err
	}
}

// witnessed is a run that somebody can be asked about.
func witnessed(t *testing.T, seed uint64) Result {
	t.Helper()
	cfg := config(seed)
	cfg.Witness = true
	r := Run(cfg)
	hold(t, r)
	return r
}

// Each launch, removal and refusal of some runs is answered, and what the answer says is what has happened.
func TestAnswersAreTrue(t *testing.T) {
	sum := witness.Tally{}
	for n := max(1, *seed); sum.Answers() < *answers && (*seed == 0 || n == *seed); n++ {
		r := witnessed(t, n)
		got := r.Witness.Ask(teller(t, r))
		sum.Launches, sum.Removals, sum.Refusals = sum.Launches+got.Launches, sum.Removals+got.Removals, sum.Refusals+got.Refusals
		for _, wrong := range got.Wrong {
			t.Error(wrong)
		}
	}
	t.Logf("%d answers: %d launches, %d removals, %d refusals", sum.Answers(), sum.Launches, sum.Removals, sum.Refusals)
}

// Seeds whose answers were wrong once: pods evicted without a tier by a terminator that died, a launch before
// prices were known, shortages of a launch whose instance ended at once, NodeClaims that somebody else
// deleted under an unconfirmed command or before a confirmed one did, one that a command deleted before it
// had written its reason, evictions while the log was away by a terminator that died.
func TestAnswersThatWereWrong(t *testing.T) {
	for _, n := range []uint64{68, 76, 98, 140, 188, 215, 266, 357, 381, 397} {
		r := witnessed(t, n)
		for _, wrong := range r.Witness.Ask(teller(t, r)).Wrong {
			t.Error(wrong)
		}
	}
}

// Answers that are wrong in one way each are found by the check that is for it.
func TestWrongAnswersAreFound(t *testing.T) {
	var runs []Result
	var tellers []witness.Tell
	for n := uint64(1); n <= 16; n++ {
		runs = append(runs, witnessed(t, n))
		tellers = append(tellers, teller(t, runs[n-1]))
	}
	text := func(change func(string) string) func([]audit.Line) []audit.Line {
		return func(lines []audit.Line) []audit.Line {
			lines = slices.Clone(lines)
			for i := range lines {
				l := &lines[i]
				l.Text, l.Details = change(l.Text), slices.Clone(l.Details)
				for j := range l.Details {
					l.Details[j] = change(l.Details[j])
				}
			}
			return lines
		}
	}
	replaced := func(old, with string) func([]audit.Line) []audit.Line {
		return text(func(s string) string { return strings.ReplaceAll(s, old, with) })
	}
	without := func(words string) func([]audit.Line) []audit.Line {
		return func(lines []audit.Line) []audit.Line {
			return slices.DeleteFunc(slices.Clone(lines), func(l audit.Line) bool { return strings.Contains(l.Text, words) })
		}
	}
	otherPods := func(s string) string {
		return podsOf.ReplaceAllString(s, "planned for 4 pods (default/first-001, default/first-002, default/second-003, default/second-004):")
	}
	for name, x := range map[string]struct {
		wrong func([]audit.Line) []audit.Line
		found string
	}{
		"no answer":                    {func([]audit.Line) []audit.Line { return nil }, "is not answered"},
		"the wrong node joins":         {replaced("registered as node ip-", "registered as node ip-9"), "does not say"},
		"the wrong node is taken":      {replaced(" node(s): ip-", " node(s): ip-9"), "which does not name node"},
		"the wrong node is emptied":    {replaced("drain of node ip-", "drain of node ip-9"), "does not say that it was evicted"},
		"the wrong instance":           {replaced("launched as i-", "launched as i-9"), "does not say that it was launched"},
		"the wrong instance type":      {replaced(".large", ".xlarge"), "it is"},
		"the wrong zone":               {replaced("eu-1a", "eu-1b"), "it is"},
		"the wrong price":              {replaced("$0.0", "$0.1"), "the price was"},
		"the wrong saving":             {replaced("saving $0.", "saving $1."), "the price was"},
		"pods that were elsewhere":     {text(otherPods), "which was"},
		"the wrong count of pods":      {replaced("moving ", "moving 7"), "pods move, there were"},
		"the wrong NodePool":           {replaced("of NodePool default", "of NodePool extra"), "no decision on NodeClaim"},
		"the wrong reason":             {replaced("must go: ", "must go: expired, "), "which is not so"},
		"the wrong record":             {shifted, "does not tell of record"},
		"no reason of a refusal":       {replaced("rejected", "chosen"), "refuses it without a reason"},
		"a refusal that is none":       {replaced(" planned for ", " cannot be placed with "), "by its step or its text alone"},
		"no word of who deleted it":    {replaced("somebody else", "nobody"), "somebody else deleted"},
		"a word of who did not":        {replaced("drain of node", "somebody else deleted: drain of node"), "and the disruptor deleted NodeClaim"},
		"no word of the eviction":      {without(" is evicted"), "does not say that it was evicted"},
		"no word of why it is emptied": {without(" started ("), "does not say why node"},
		"no word of the end":           {without(" is terminated"), "is terminated"},
		"no word of a shortage":        {without("no capacity for"), "which asked for it"},
	} {
		t.Run(name, func(t *testing.T) {
			for i, r := range runs {
				got := r.Witness.Ask(func(subject string) ([]audit.Line, error) {
					lines, err := tellers[i](subject)
					return x.wrong(lines), err
				})
				if slices.ContainsFunc(got.Wrong, func(wrong string) bool { return strings.Contains(wrong, x.found) }) {
					return
				}
			}
			t.Errorf("nothing says %q", x.found)
		})
	}
}

var podsOf = regexp.MustCompile("planned for .*?:")

// shifted are the lines with the sequences of the records after them.
func shifted(lines []audit.Line) []audit.Line {
	lines = slices.Clone(lines)
	for i := range lines {
		lines[i].Seq++
	}
	return lines
}
