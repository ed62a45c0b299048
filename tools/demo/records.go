package main

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"time"

	"millwright/planner/ledger"
)

// record is a line of `millctl log -o json`.
type record struct {
	Seq         uint64          `json:"seq"`
	Time        time.Time       `json:"time"`
	Service     string          `json:"service"`
	Kind        string          `json:"kind"`
	Subjects    []string        `json:"subjects"`
	Payload     json.RawMessage `json:"payload"`
	Explanation json.RawMessage `json:"explanation"`
}

// records follows the event log and prints its timeline.
type records struct {
	ui  *ui
	cmd *exec.Cmd

	mu       sync.Mutex
	count    int
	pods     map[string]bool // refused, by namespace/name
	claims   map[string]*claimTimes
	launched []ledger.Launched
	planned  int
	price    int64
	peak     int64
	// moves are the commands that moved pods, without those that were given up; saved is what they came to,
	// for the summary.
	moves []ledger.CommandStarted
	saved string
	// last is when the last record came.
	last time.Time
}

// idleFor is how long nothing must happen for the cluster to be at rest.
const idleFor = 15 * time.Second

// claimTimes are of the records of one claim.
type claimTimes struct {
	created, requested, launched, registered, initialized, closed time.Time
	price                                                         int64
}

func followRecords(ctx context.Context, cmd *exec.Cmd, ui *ui) (*records, error) {
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, fmt.Errorf("follow the log: %w", err)
	}
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("follow the log: %w", err)
	}
	context.AfterFunc(ctx, func() { _ = cmd.Process.Kill() })
	r := &records{ui: ui, cmd: cmd, pods: map[string]bool{}, claims: map[string]*claimTimes{}}
	go func() {
		lines := bufio.NewScanner(out)
		lines.Buffer(nil, 16<<20)
		for lines.Scan() {
			var rec record
			if json.Unmarshal(lines.Bytes(), &rec) == nil {
				r.addRecord(rec)
			}
		}
	}()
	return r, nil
}

func (r *records) stop() {
	_ = r.cmd.Process.Kill()
	_ = r.cmd.Wait()
}

func (r *records) addRecord(rec record) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.count, r.last = r.count+1, time.Now()
	if tell, ok := tellers[rec.Kind]; ok {
		tell(r, rec)
	}
}

// tellers turn records into lines of the timeline; kinds without one are not shown.
var tellers = map[string]func(*records, record){
	ledger.KindProvisioningPlanned.String(): (*records).tellPlanned,
	ledger.KindProvisioningWidened.String(): (*records).tellPlanned,
	ledger.KindClaimCreated.String():        (*records).tellCreated,
	ledger.KindLaunchRequested.String():     (*records).tellRequested,
	ledger.KindFleetRequested.String():      (*records).tellRequested,
	ledger.KindFleetAnswered.String():       (*records).tellAnswered,
	ledger.KindLaunched.String():            (*records).tellLaunched,
	ledger.KindLaunchFailed.String():        (*records).tellLaunchFailed,
	ledger.KindClaimRegistered.String():     (*records).tellRegistered,
	ledger.KindClaimInitialized.String():    (*records).tellInitialized,
	ledger.KindCommandStarted.String():      (*records).tellCommand,
	ledger.KindCommandMovesStarted.String(): (*records).tellMoves,
	ledger.KindCommandRolledBack.String():   (*records).tellGivenUp,
	ledger.KindCommandAbandoned.String():    (*records).tellGivenUp,
	ledger.KindDrainStarted.String():        (*records).tellDrain,
	ledger.KindNodeDrained.String():         (*records).tellDrained,
	ledger.KindInstanceTerminated.String():  (*records).tellTerminated,
	ledger.KindClaimClosed.String():         (*records).tellClosed,
}

func decode[T any](rec record) (v T) {
	_ = json.Unmarshal(rec.Payload, &v)
	return v
}

func (r *records) claim(name string) *claimTimes {
	c, ok := r.claims[name]
	if !ok {
		c = &claimTimes{}
		r.claims[name] = c
	}
	return c
}

func (r *records) tellPlanned(rec record) {
	p := decode[ledger.ProvisioningPlanned](rec)
	for i, c := range p.Claims {
		r.planned++
		r.ui.line(blue, "decision", "#%d: a node for %s: %s in %s at %s, cheapest of %d instance types%s",
			rec.Seq, podList(c.Pods), c.Cheapest.InstanceType, c.Cheapest.Zone, dollars(c.Cheapest.MicroUSDPerHour),
			len(c.InstanceTypes), alternatives(rec.Explanation, i, c))
	}
	for _, w := range p.Widened {
		r.ui.line(blue, "decision", "#%d: %s is widened to hold %s: %s in %s at %s", rec.Seq, w.Claim, podList(w.Content.Pods),
			w.Content.Cheapest.InstanceType, w.Content.Cheapest.Zone, dollars(w.Content.Cheapest.MicroUSDPerHour))
	}
	for _, pl := range p.Placements {
		r.ui.line(blue, "decision", "#%d: %s will fit %s%s", rec.Seq, podList(pl.Pods), pl.Node, pl.Claim)
	}
	for _, f := range p.Refused {
		for _, pod := range f.Pods {
			r.pods[pod.Namespace+"/"+pod.Name] = true
		}
		for _, reason := range f.Reasons {
			r.ui.line(red, "refused", "#%d: %s: %s%s", rec.Seq, podList(f.Pods), poolPrefix(reason.NodePool), clip(reason.Message))
		}
	}
}

// alternatives lists what the next choices would have cost, from the claim's own list.
func alternatives(explanation json.RawMessage, index int, c ledger.PlannedClaim) string {
	var e struct {
		Claims []struct {
			Alternatives []ledger.OfferingPrice `json:"alternatives"`
		} `json:"claims"`
	}
	if json.Unmarshal(explanation, &e) != nil || index >= len(e.Claims) {
		return ""
	}
	var parts []string
	for _, a := range e.Claims[index].Alternatives {
		text := fmt.Sprintf("%s %s", a.InstanceType, dollars(a.MicroUSDPerHour))
		if a.InstanceType != c.Cheapest.InstanceType && !slices.Contains(parts, text) && len(parts) < 3 {
			parts = append(parts, text)
		}
	}
	if len(parts) == 0 {
		return ""
	}
	return " (next: " + strings.Join(parts, ", ") + ")"
}

func (r *records) tellCreated(rec record) {
	r.claim(decode[ledger.ClaimCreated](rec).Claim).created = rec.Time
}

func (r *records) tellRequested(rec record) {
	p := decode[ledger.LaunchRequested](rec)
	for _, m := range p.Members() {
		r.claim(m.Claim).requested = rec.Time
	}
	others := ""
	if n := len(p.Others); n > 0 {
		others = fmt.Sprintf(" and %d others", n)
	}
	r.ui.line(yellow, "launch", "#%d: CreateFleet for %s%s, attempt %d", rec.Seq, p.Claim, others, p.Attempt)
}

func (r *records) tellAnswered(rec record) {
	p := decode[ledger.FleetAnswered](rec)
	for _, l := range p.Launched {
		r.addLaunched(rec, l)
	}
	for _, f := range p.Failed {
		r.ui.line(red, "launch", "#%d: %s failed: %s", rec.Seq, f.Claim, f.Message)
	}
}

func (r *records) tellLaunched(rec record) { r.addLaunched(rec, decode[ledger.Launched](rec)) }

func (r *records) addLaunched(rec record, p ledger.Launched) {
	c := r.claim(p.Claim)
	c.launched, c.price = rec.Time, p.Price
	r.launched = append(r.launched, p)
	r.price += p.Price
	r.peak = max(r.peak, r.price)
	r.ui.line(green, "launched", "#%d: %s is %s, %s %s in %s at %s", rec.Seq, p.Claim, p.InstanceID, p.CapacityType, p.InstanceType, p.Zone, dollars(p.Price))
}

func (r *records) tellLaunchFailed(rec record) {
	p := decode[ledger.LaunchFailed](rec)
	r.ui.line(red, "launch", "#%d: %s failed: %s", rec.Seq, p.Claim, p.Message)
}

func (r *records) tellRegistered(rec record) {
	p := decode[ledger.ClaimRegistered](rec)
	r.claim(p.Claim).registered = rec.Time
	r.ui.line(green, "registered", "#%d: %s joined as node %s", rec.Seq, p.Claim, p.Node)
}

func (r *records) tellInitialized(rec record) {
	r.claim(decode[ledger.ClaimInitialized](rec).Claim).initialized = rec.Time
}

func (r *records) tellCommand(rec record) {
	p := decode[ledger.CommandStarted](rec)
	for _, c := range p.Candidates {
		r.ui.line(blue, "decision", "#%d: take node %s away: %s (saves %s)", rec.Seq, c.Node, p.Reason, dollars(c.Price))
	}
}

func (r *records) tellMoves(rec record) {
	p := decode[ledger.CommandStarted](rec)
	r.moves = append(r.moves, p)
	var nodes []string
	for _, c := range p.Candidates {
		nodes = append(nodes, c.Node)
	}
	r.ui.line(blue, "decision", "#%d: take %s away: %s, %d pods move to %s, from %s to %s", rec.Seq, strings.Join(nodes, " and "), p.Reason, p.Evictions,
		destinations(p), dollars(p.PriceBefore), dollars(p.PriceAfter))
}

// destinations of the pods of a command.
func destinations(p ledger.CommandStarted) string {
	var parts []string
	if len(p.Placements) > 0 {
		parts = append(parts, "nodes that stay")
	}
	for _, c := range p.Replacements {
		parts = append(parts, "a new "+c.Cheapest.InstanceType)
	}
	return strings.Join(parts, " and ")
}

func (r *records) tellGivenUp(rec record) {
	p := decode[ledger.CommandRolledBack](rec)
	r.moves = slices.DeleteFunc(r.moves, func(c ledger.CommandStarted) bool {
		return slices.Contains(rec.Subjects, "claim/"+c.Candidates[0].Claim)
	})
	r.ui.line(red, "given up", "#%d: %s", rec.Seq, p.Reason)
}

// consolidated reports that all nodes that pods had to leave are gone, or that nothing happens any more.
func (r *records) consolidated() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, c := range r.moves {
		for _, n := range c.Candidates {
			if r.claim(n.Claim).closed.IsZero() {
				return false
			}
		}
	}
	return len(r.moves) > 0 || time.Since(r.last) > idleFor
}

// movedPods counts the pods that commands moved.
func (r *records) movedPods() (n int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, c := range r.moves {
		n += c.Evictions
	}
	return n
}

// consolidatedClaim is the NodeClaim of the first node that pods had to leave; of the first node of all if
// none had to.
func (r *records) consolidatedClaim() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.moves) > 0 {
		return r.moves[0].Candidates[0].Claim
	}
	return r.launched[0].Claim
}

// priceNow is what all instances cost per hour.
func (r *records) priceNow() int64 {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.price
}

func (r *records) tellDrain(rec record) {
	p := decode[ledger.DrainStarted](rec)
	r.ui.line(yellow, "drain", "#%d: %s", rec.Seq, p.Node)
}

func (r *records) tellDrained(rec record) {
	p := decode[ledger.NodeDrained](rec)
	r.ui.line(yellow, "drained", "#%d: %s, nothing left to wait for", rec.Seq, p.Node)
}

func (r *records) tellTerminated(rec record) {
	p := decode[ledger.InstanceTerminated](rec)
	r.price -= r.claim(p.Claim).price
	r.ui.line(yellow, "terminated", "#%d: %s of %s", rec.Seq, p.InstanceID, p.Claim)
}

func (r *records) tellClosed(rec record) {
	r.claim(decode[ledger.ClaimClosed](rec).Claim).closed = rec.Time
}

func (r *records) refused(namespace, name string) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.pods[namespace+"/"+name]
}

// openClaims counts claims that were created and not closed.
func (r *records) openClaims() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	n := 0
	for _, c := range r.claims {
		if c.closed.IsZero() {
			n++
		}
	}
	return n
}

func poolPrefix(pool string) string {
	if pool == "" {
		return ""
	}
	return "NodePool " + pool + ": "
}

// clip keeps a line of the timeline to a line of a terminal; the whole text is in the record.
func clip(text string) string {
	const width = 110
	if r := []rune(text); len(r) > width {
		return string(r[:width]) + "…"
	}
	return text
}

func podList(pods []ledger.PodRef) string {
	switch len(pods) {
	case 0:
		return "no pods"
	case 1:
		return "pod " + pods[0].Name
	}
	return fmt.Sprintf("%d pods (%s, …)", len(pods), pods[0].Name)
}

func dollars(micro int64) string { return fmt.Sprintf("$%.4f/h", float64(micro)/1e6) }
