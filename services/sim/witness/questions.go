package witness

import (
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	karpv1 "millwright/api/karpenter/v1"
	"millwright/services/sim/stage"
	"millwright/store/audit"
)

// Tell answers a question as `millctl why` does: the story of a subject.
type Tell func(subject string) ([]audit.Line, error)

// Tally of questions.
type Tally struct {
	Launches, Removals, Refusals int
	// Wrong are answers that are missing or not true, each with what is.
	Wrong []string
}

// Answers counts all questions.
func (t Tally) Answers() int { return t.Launches + t.Removals + t.Refusals }

// Ask asks about each launch, removal and refusal of the run.
func (w *Witness) Ask(tell Tell) Tally {
	a := &asking{Witness: w, tell: tell}
	for _, l := range w.launches {
		a.launched(l)
		a.removed(l)
	}
	for _, n := range w.sortedNodes() {
		for _, e := range n.evicted {
			a.evicted(n, e)
		}
	}
	for _, p := range w.sortedPods() {
		a.waited(p)
	}
	for _, x := range w.shortages {
		a.short(x)
	}
	return a.Tally
}

// asking is one round of questions.
type asking struct {
	*Witness
	tell Tell
	Tally
	// subject of the question, and its answer.
	subject string
	lines   []audit.Line
}

// ask one question; false: there is no answer.
func (a *asking) ask(count *int, subject string) bool {
	*count++
	a.subject = subject
	lines, err := a.tell(subject)
	a.lines = lines
	if err != nil || len(lines) == 0 {
		a.wrong("is not answered: %v", err)
		return false
	}
	return true
}

func (a *asking) wrong(format string, args ...any) {
	a.Wrong = append(a.Wrong, fmt.Sprintf("seed %d: why %s: %s", a.Seed, a.subject, fmt.Sprintf(format, args...)))
}

// find returns the first line in whose text or details the words are, and the text.
func (a *asking) find(words string) (line *audit.Line, text string) {
	for i := range a.lines {
		l := &a.lines[i]
		for _, t := range append([]string{l.Text}, l.Details...) {
			if strings.Contains(t, words) {
				return l, t
			}
		}
	}
	return nil, ""
}

// says demands words somewhere in the answer.
func (a *asking) says(words string) bool {
	if l, _ := a.find(words); l == nil {
		a.wrong("does not say %q", words)
		return false
	}
	return true
}

// launched asks why an instance was launched.
func (a *asking) launched(l *launch) {
	if !a.ask(&a.Launches, "instance/"+l.ID) {
		return
	}
	c := a.claims[l.uid]
	if c == nil || c.instance != l.ID { // no claim ever had it
		a.says(l.ID)
		return
	}
	told, text := a.find("launched as " + l.ID + ":")
	if told == nil {
		a.wrong("does not say that it was launched")
		return
	}
	want := fmt.Sprintf("NodeClaim %s launched as %s: %s %s in %s at ", c.name, l.ID, l.InstanceType, l.CapacityType, l.Zone)
	_, price, ok := strings.Cut(text, want)
	if !ok {
		a.wrong("says %q, it is %q", text, want)
		return
	}
	price, _, _ = strings.Cut(price, ";")
	if l.CapacityType == karpv1.CapacityTypeReserved {
		if want := "next to nothing, reservation " + l.ReservationID; price != want {
			a.wrong("says %s, it is %s", price, want)
		}
	} else {
		a.priced(price, a.prices(l, told.Time, 2*time.Minute))
	}
	a.planned(c, told)
	if n := a.nodeOf(l.ID); n != nil && !n.registered.IsZero() {
		a.joined(c, n)
	}
}

// priced demands that a price is one of some.
func (a *asking) priced(text string, prices []int64) {
	var want []string
	for _, p := range prices {
		want = append(want, dollars(p))
	}
	if !slices.Contains(want, text) {
		a.wrong("says %s, the price was %v", text, want)
	}
}

// dollars per hour as users read them.
func dollars(micro int64) string {
	if micro == 0 {
		return "an unknown price"
	}
	return fmt.Sprintf("$%.4f/h", float64((micro+50)/100)/10_000)
}

var podNames = regexp.MustCompile(`default/[a-z]+-[0-9]+`)

// planned demands that before the launch somebody decided on the claim, for pods that waited or that moved.
func (a *asking) planned(c *claim, told *audit.Line) {
	for i := range a.lines {
		l := &a.lines[i]
		if l.Seq >= told.Seq || l.Step != audit.StepDecided {
			continue
		}
		switch {
		case strings.Contains(l.Text, "NodeClaim "+c.name+" of NodePool "+c.pool+" "), strings.Contains(l.Text, "NodeClaim "+c.name+" planned for the replicas of NodePool "+c.pool):
			for _, key := range podNames.FindAllString(l.Text, -1) {
				a.waitedThen(key, l)
			}
			return
		case strings.HasPrefix(l.Text, "command ") && strings.Contains(l.Text, "replacement(s)"):
			return
		}
	}
	a.wrong("no decision on NodeClaim %s of NodePool %s before record %d", c.name, c.pool, told.Seq)
}

// waitedThen demands that a pod was without a node when a line was written, or is to leave its node.
func (a *asking) waitedThen(key string, l *audit.Line) {
	for _, p := range a.pods {
		if p.key != key || p.created.After(l.Time.Add(stage.ClocksApart)) {
			continue
		}
		if p.bound.IsZero() || p.bound.After(l.Time.Add(-lookback)) && (p.gone.IsZero() || p.gone.After(l.Time.Add(-lookback))) {
			return
		}
		if a.hasToMove(p, l.Time) {
			return
		}
		a.wrong("record %d is for pod %s, which was on node %s since %s", l.Seq, key, p.node, p.bound)
		return
	}
	a.wrong("record %d is for pod %s, which was not there at %s", l.Seq, key, l.Time)
}

// hasToMove reports that the node of a pod goes, or is to go by a command.
func (a *asking) hasToMove(p *pod, at time.Time) bool {
	n := a.nodes[p.node]
	if n == nil {
		return false
	}
	at = at.Add(lookback)
	if len(n.marks) > 0 && n.marks[0].at.Before(at) || !n.deletedAt.IsZero() && n.deletedAt.Before(at) {
		return true
	}
	for _, c := range a.claims {
		if c.instance == n.instance && !c.deletedAt.IsZero() && c.deletedAt.Before(at) {
			return true
		}
	}
	return false
}

// told reports that a step was seen early enough to be recorded before the claim went.
func told(at time.Time, c *claim) bool {
	return !at.IsZero() && (c.deletedAt.IsZero() || c.deletedAt.Sub(at) > lookback)
}

// joined demands that the story names the node that joined, and no other.
func (a *asking) joined(c *claim, n *node) {
	if told(n.registered, c) {
		a.says("NodeClaim " + c.name + " registered as node " + n.name)
	}
	if told(n.initialized, c) {
		a.says("node " + n.name + " of NodeClaim " + c.name + " is ready for pods")
	}
	for _, l := range a.lines {
		if _, other, ok := strings.Cut(l.Text, "registered as node "); ok && other != n.name {
			a.wrong("names node %s, it is %s", other, n.name)
		}
	}
}

// removed asks why an instance and its node went.
func (a *asking) removed(l *launch) {
	c := a.claims[l.uid]
	if l.endedAt.IsZero() || c == nil || c.instance != l.ID {
		return
	}
	subject := "claim/" + c.name
	n := a.nodeOf(l.ID)
	if n != nil && told(n.registered, c) {
		subject = "node/" + n.name
	}
	if !a.ask(&a.Removals, subject) {
		return
	}
	a.says("instance " + l.ID + " of NodeClaim " + c.name + " is terminated")
	a.because(l, c, n)
}

// because demands the true reason of a removal.
func (a *asking) because(l *launch, c *claim, n *node) {
	switch c.deletedBy {
	case "disruptor":
		a.byCommand(l, c, n)
	case "lifecycle":
		a.doomed(l, c, n)
	default:
		if line, _ := a.find(" must go: "); line != nil {
			a.doomed(l, c, n)
		} else if done, _ := a.find(" succeeded: its NodeClaims are being deleted"); done != nil && n != nil && len(n.marks) > 0 &&
			done.Time.Sub(c.deletedAt).Abs() < stage.ClocksApart {
			a.byCommand(l, c, n) // which was about to delete it: either would have ended it
		} else if !l.endedAt.Before(c.deletedAt) {
			a.says("somebody else deleted")
		}
	}
}

// byCommand demands the command whose mark the node had last, with what it saved and moved.
func (a *asking) byCommand(l *launch, c *claim, n *node) {
	if n == nil || len(n.marks) == 0 {
		return // the mark was taken off, or never seen
	}
	m := n.marks[len(n.marks)-1]
	if said, text := a.find("somebody else deleted"); said != nil && c.deletedBy == "disruptor" && !n.deletedAt.Before(c.deletedAt) {
		a.wrong("says %q, and the disruptor deleted NodeClaim %s", text, c.name)
	}
	at := slices.IndexFunc(a.lines, func(x audit.Line) bool { return x.Seq == m.seq })
	if at < 0 || a.lines[at].Step != audit.StepDecided {
		a.wrong("does not tell of record %d, by which node %s was marked", m.seq, n.name)
		return
	}
	text := a.lines[at].Text
	if !strings.Contains(text, " "+n.name) {
		a.wrong("says %q, which does not name node %s", text, n.name)
	}
	if !strings.Contains(text, " takes 1 node(s): ") {
		return // the numbers are of all its nodes
	}
	moved := 0
	if found := movingPods.FindStringSubmatch(text); found != nil {
		moved, _ = strconv.Atoi(found[1])
	}
	if moved < m.steady || moved > m.most {
		a.wrong("says that %d pods move, there were %d to %d on node %s", moved, m.steady, m.most, n.name)
	}
	if strings.Contains(text, "(Empty,") && m.steady > 0 {
		a.wrong("says %q, and there were %d pods on it", text, m.steady)
	}
	if !strings.Contains(text, "replacement(s)") {
		_, saved, known := strings.Cut(text, "saving ")
		if saved, _, _ = strings.Cut(saved, ","); !known {
			saved = dollars(0)
		}
		a.priced(saved, a.prices(l, a.lines[at].Time, 2*time.Minute))
	}
}

var movingPods = regexp.MustCompile(`moving ([0-9]+) pod`)

// doomed demands a reason that was one.
func (a *asking) doomed(l *launch, c *claim, n *node) {
	line, text := a.find("NodeClaim " + c.name + " must go: ")
	if line == nil {
		// Somebody deleted the Node a moment before a command that was confirmed deleted the NodeClaim:
		// either would have ended it.
		if done, _ := a.find(" succeeded: its NodeClaims are being deleted"); done != nil && n != nil && len(n.marks) > 0 {
			a.byCommand(l, c, n)
			return
		}
		if n != nil && n.deletedBy != "lifecycle" && !n.deletedAt.IsZero() && n.deletedAt.Before(c.deletedAt) {
			a.says("somebody else deleted") // lifecycle follows who deleted the Node
			return
		}
		if unused, _ := a.find("unused replacement"); unused != nil {
			return
		}
		if unused, _ := a.find("given up"); unused != nil {
			return
		}
		a.wrong("does not say why NodeClaim %s was deleted by lifecycle at %s", c.name, c.deletedAt)
		return
	}
	_, reason, _ := strings.Cut(text, "must go: ")
	reason, _, _ = strings.Cut(reason, ",")
	at := line.Time.Add(stage.ClocksApart)
	ended := !l.endedAt.IsZero() && l.endedAt.Before(at)
	_, noticed := a.Deeds.Noticed[l.ID]
	ok := true
	switch reason {
	case "expired":
		ok = c.expires != nil && !at.Before(c.created.Add(*c.expires))
	case "spot_interrupted":
		ok = noticed
	case "registration_timeout":
		ok = !at.Before(c.created.Add(a.Options.RegistrationTimeout))
	case "launch_timeout":
		ok = !at.Before(c.created.Add(a.Options.LaunchTimeout))
	case "garbage_collected", "instance_terminated":
		ok = ended
	case "node_gone":
		ok = n == nil || !n.deletedAt.IsZero()
	}
	if !ok {
		a.wrong("says %q, which is not so", text)
	}
}

// evicted asks a pod why it left its node.
func (a *asking) evicted(n *node, e eviction) {
	if !a.ask(&a.Removals, "pod/"+e.pod.key) {
		return
	}
	from := "node " + n.name
	at := slices.IndexFunc(a.lines, func(l audit.Line) bool {
		return strings.Contains(l.Text, from) && (strings.Contains(l.Text, "evicted") || strings.Contains(l.Text, "is deleted")) &&
			strings.Contains(l.Text, e.pod.key) && (!l.Time.After(e.at.Add(stage.ClocksApart)) || strings.Contains(l.Text, "as the API server listed it"))
	})
	if at < 0 {
		a.wrong("does not say that it was evicted from %s at %s", from, e.at)
		return
	}
	if l, _ := a.find("drain of " + from + " started"); l == nil {
		a.wrong("does not say why %s is emptied", from)
	}
}

// waited asks a pod that had no node for a while what is to become of it.
func (a *asking) waited(p *pod) {
	until := p.bound
	for _, t := range []time.Time{p.gone, a.Clock.Now()} {
		if until.IsZero() || !t.IsZero() && t.Before(until) {
			until = t
		}
	}
	if p.daemon || p.unplaced.IsZero() || until.Sub(p.unplaced) < lookback || !a.ask(&a.Refusals, "pod/"+p.key) {
		return
	}
	for i := range a.lines {
		l := &a.lines[i]
		refused := l.Step == audit.StepRefused
		if refused != strings.Contains(l.Text, "cannot be placed") {
			a.wrong("record %d is a refusal by its step or its text alone: %q", l.Seq, l.Text)
		}
		if refused {
			a.refused(p, l)
		}
		if p.app == stage.NeverFits && (strings.Contains(l.Text, " planned for ") || strings.Contains(l.Text, " waits for ")) {
			a.wrong("record %d plans for what fits nowhere: %q", l.Seq, l.Text)
		}
	}
	if last := a.lines[len(a.lines)-1]; p.app == stage.NeverFits && !a.tooLarge(&last) {
		a.wrong("ends with %q, %v: it fits nowhere", last.Text, last.Details)
	}
}

// tooLarge reports that a line refuses a pod because it is too large, for any type or for what a limit
// leaves, if there is a NodePool at all.
func (a *asking) tooLarge(l *audit.Line) bool {
	return l.Step == audit.StepRefused && slices.ContainsFunc(l.Details, func(d string) bool {
		return strings.Contains(d, "resources") || strings.HasSuffix(d, "(limits)")
	})
}

// refused demands that a pod that is refused had no node, that it says why, and that what it says is so.
func (a *asking) refused(p *pod, l *audit.Line) {
	if !p.bound.IsZero() && p.bound.Before(l.Time.Add(-lookback)) && !a.hasToMove(p, l.Time) {
		a.wrong("record %d refuses it, and it is on node %s since %s", l.Seq, p.node, p.bound)
	}
	reasons := 0
	for _, d := range l.Details {
		if !strings.HasPrefix(d, "rejected") {
			continue
		}
		reasons++
		for _, pool := range a.Script.Pools {
			if strings.HasPrefix(d, "rejected NodePool "+pool.Name+":") && strings.HasSuffix(d, "(limits)") && len(pool.Spec.Limits) == 0 {
				a.wrong("record %d: %q, and NodePool %s has no limits", l.Seq, d, pool.Name)
			}
		}
	}
	if reasons == 0 {
		a.wrong("record %d refuses it without a reason: %v", l.Seq, l.Details)
	}
}

// short asks of an offering that EC2 had none of which launches it failed.
func (a *asking) short(x shortage) {
	c := a.claims[x.uid]
	if c == nil || !c.deletedAt.IsZero() && c.deletedAt.Before(x.at.Add(lookback)) {
		return // nobody had to record what became of it
	}
	name := x.offering.InstanceType + "/" + x.offering.Zone + "/" + x.offering.CapacityType
	if !a.ask(&a.Refusals, "offering/"+name) {
		return
	}
	at := slices.IndexFunc(a.lines, func(l audit.Line) bool {
		return !l.Time.Before(x.at.Add(-stage.ClocksApart)) && strings.Contains(l.Text, c.name)
	})
	if at < 0 {
		a.wrong("does not tell of NodeClaim %s, which asked for it at %s", c.name, x.at)
	}
}
