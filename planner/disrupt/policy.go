package disrupt

import (
	"cmp"
	"fmt"
	"math/big"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/robfig/cron/v3"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	karpv1 "millwright/api/karpenter/v1"
	mwv1alpha1 "millwright/api/millwright/v1alpha1"
	"millwright/planner"
	"millwright/planner/timezone"
)

// payBackHorizon is what counts as the life of a new state if a policy says nothing.
const payBackHorizon = 24 * time.Hour

// policy is a DisruptionPolicy that was read.
type policy struct {
	*mwv1alpha1.DisruptionPolicy
	selector labels.Selector
	windows  []window
	savings  savings
	// fault is what can't be read; then nothing is disrupted voluntarily in what it selects. selectsAll: the selector can't be read.
	fault      string
	selectsAll bool
}

// savings in micro USD; 0 asks for nothing.
type savings struct {
	perHour, perEviction int64
	percent              int64
	// costPerEviction is paid back within horizon; 0: no such rule.
	costPerEviction int64
	horizon         time.Duration
}

// window is a schedule with its zone.
type window struct {
	mwv1alpha1.Window
	schedule cron.Schedule
	zone     *time.Location
}

// readPolicy never fails: what can't be read is its fault.
func readPolicy(o *mwv1alpha1.DisruptionPolicy) *policy {
	p := &policy{DisruptionPolicy: o, selector: labels.Everything()}
	if o.Spec.NodePoolSelector != nil {
		selector, err := metav1.LabelSelectorAsSelector(o.Spec.NodePoolSelector)
		if err != nil {
			p.fault, p.selectsAll = fmt.Sprintf("spec.nodePoolSelector: %v", err), true
			return p
		}
		p.selector = selector
	}
	for i, w := range o.Spec.Windows {
		read, err := readWindow(w)
		if err != nil {
			p.fault = fmt.Sprintf("spec.windows[%d].%v", i, err)
			return p
		}
		p.windows = append(p.windows, read)
	}
	var err error
	if p.savings, err = readSavings(o.Spec.Savings); err != nil {
		p.fault = fmt.Sprintf("spec.savings.%v", err)
	}
	return p
}

func readWindow(w mwv1alpha1.Window) (window, error) {
	schedule, err := parseSchedule(w.Schedule)
	if err != nil {
		return window{}, fmt.Errorf("schedule: %w", err)
	}
	zone, err := timezone.Load(w.TimeZone)
	if err != nil {
		return window{}, fmt.Errorf("timeZone: %w", err)
	}
	if w.Duration.Duration <= 0 {
		return window{}, fmt.Errorf("duration: must be positive, got %s", w.Duration.Duration)
	}
	return window{w, schedule, zone}, nil
}

func readSavings(s *mwv1alpha1.Savings) (out savings, err error) {
	if s == nil {
		return out, nil
	}
	if out.perHour, err = microUSD(s.MinPerHour); err != nil {
		return out, fmt.Errorf("minPerHour: %w", err)
	}
	if out.perEviction, err = microUSD(s.MinPerEviction); err != nil {
		return out, fmt.Errorf("minPerEviction: %w", err)
	}
	if s.MinPercent != nil {
		out.percent = int64(*s.MinPercent)
	}
	if s.PayBack == nil {
		return out, nil
	}
	if out.costPerEviction, err = microUSD(&s.PayBack.CostPerEviction); err != nil {
		return out, fmt.Errorf("payBack.costPerEviction: %w", err)
	}
	out.horizon = payBackHorizon
	if h := s.PayBack.Horizon; h != nil {
		out.horizon = h.Duration
	}
	return out, nil
}

// microUSD reads an amount such as "0.05" exactly; nil is 0.
func microUSD(text *string) (int64, error) {
	if text == nil {
		return 0, nil
	}
	whole, fraction, _ := strings.Cut(*text, ".")
	n, err := strconv.ParseInt(whole+(fraction + "000000")[:max(6, len(fraction))], 10, 64)
	if err != nil || n < 0 || len(fraction) > 6 || len(whole) > 9 || strings.ContainsAny(*text, "+-") {
		return 0, fmt.Errorf("%q is not an amount in USD with at most six decimals", *text)
	}
	return n, nil
}

// readPolicies returns the policies that select each NodePool, by name.
func readPolicies(s *planner.Snapshot) map[string][]*policy {
	list := s.World.DisruptionPolicies()
	if len(list) == 0 {
		return nil
	}
	byPool := map[string][]*policy{}
	for _, o := range list {
		p := readPolicy(o)
		for _, pool := range s.World.NodePools() {
			if p.selectsAll || p.selector.Matches(labels.Set(pool.Labels)) {
				byPool[pool.Name] = append(byPool[pool.Name], p)
			}
		}
	}
	return byPool
}

// policyBlock says what DisruptionPolicies, or proposals because of them, have against taking a node away for a reason now; nil if nothing. What a later time may
// change is in Until.
func (c *candidates) policyBlock(n *planner.StateNode, reason karpv1.DisruptionReason) *Blocked {
	for _, p := range c.policies[n.NodePool] {
		if b := p.block(n, reason, c.s.Now); b != nil {
			return b.by("DisruptionPolicy " + p.Name)
		}
		if b := c.rateBlock(p, n); b != nil {
			return b.by("DisruptionPolicy " + p.Name)
		}
	}
	return c.proposalBlock(n, reason)
}

// rateBlock keeps a node whose pods would be too many for the hour. One with more pods than may move in an hour can go if nothing else
// moved, unless nothing may move at all.
func (c *candidates) rateBlock(p *policy, n *planner.StateNode) *Blocked {
	most := p.Spec.MaxEvictionsPerHour
	if most == nil {
		return nil
	}
	pods := len(reschedulable(n))
	moved, until := c.s.Ledger.Evictions(n.NodePool, c.s.Now)
	if pods == 0 || moved == 0 && *most > 0 || moved+pods <= int(*most) {
		return nil
	}
	return blocked(CauseRate, "DisruptionPolicy %q lets %d pods of NodePool %q move in an hour, %d have", p.Name, *most, n.NodePool, moved).until(until)
}

func (p *policy) block(n *planner.StateNode, reason karpv1.DisruptionReason, now time.Time) *Blocked {
	if p.fault != "" {
		return blocked(CausePolicyFault, "DisruptionPolicy %q can't be read: %s", p.Name, p.fault)
	}
	if pause := p.Spec.Pause; pause != nil && now.Before(pause.Until.Time) {
		b := blocked(CausePaused, "DisruptionPolicy %q pauses disruption until %s", p.Name, clock(pause.Until.Time))
		if pause.Reason != "" {
			b.Message += ": " + pause.Reason
		}
		return b.until(pause.Until.Time)
	}
	if age := p.Spec.MinNodeAge; age != nil {
		if old := n.Claim.CreationTimestamp.Add(age.Duration); now.Before(old) {
			return blocked(CauseTooYoung, "DisruptionPolicy %q keeps nodes younger than %s", p.Name, age.Duration).until(old)
		}
	}
	return p.closed(reason, now)
}

// closed says which window keeps a reason from disruption; nil if none does.
func (p *policy) closed(reason karpv1.DisruptionReason, now time.Time) *Blocked {
	var opens time.Time
	limited, open := false, false
	for _, w := range p.windows {
		if len(w.Reasons) > 0 && !slices.Contains(w.Reasons, reason) {
			continue
		}
		from, until, is := w.at(now)
		switch {
		case w.Action == mwv1alpha1.WindowDeny && is:
			return blocked(CauseWindow, "DisruptionPolicy %q denies disruption for reason %s until %s", p.Name, reason, clock(until)).until(until)
		case w.Action == mwv1alpha1.WindowAllow:
			limited, open = true, open || is
			if !is && !from.IsZero() && (opens.IsZero() || from.Before(opens)) {
				opens = from
			}
		}
	}
	switch {
	case !limited || open:
		return nil
	case opens.IsZero():
		return blocked(CauseWindow, "DisruptionPolicy %q allows disruption for reason %s at no time that ever comes", p.Name, reason)
	}
	return blocked(CauseWindow, "DisruptionPolicy %q allows disruption for reason %s from %s", p.Name, reason, clock(opens)).until(opens)
}

// at returns the opening that contains now, or else the next one; zero times if there is none.
func (w *window) at(now time.Time) (from, until time.Time, open bool) {
	from = w.schedule.Next(now.In(w.zone).Add(-w.Duration.Duration)).UTC()
	if from.IsZero() || from.Year() < 2 {
		return time.Time{}, time.Time{}, false
	}
	return from, from.Add(w.Duration.Duration), !from.After(now)
}

// openingsMax bounds the openings that a policy's status names.
const openingsMax = 10

// PolicyStatus is what a DisruptionPolicy's status is to say at a time: the NodePools it selects, its next openings, and what of it can't
// be read ("" if all can).
func PolicyStatus(o *mwv1alpha1.DisruptionPolicy, pools []*karpv1.NodePool, now time.Time) (selected int, openings []mwv1alpha1.Opening, fault string) {
	p := readPolicy(o)
	for _, pool := range pools {
		if p.selectsAll || p.selector.Matches(labels.Set(pool.Labels)) {
			selected++
		}
	}
	if p.fault != "" {
		return selected, nil, p.fault
	}
	for _, w := range p.windows {
		from, until, _ := w.at(now)
		for range openingsMax {
			if from.IsZero() {
				break
			}
			openings = append(openings, mwv1alpha1.Opening{Action: w.Action, Reasons: w.Reasons, From: metav1.NewTime(from), Until: metav1.NewTime(until)})
			from, until, _ = w.after(from)
		}
	}
	slices.SortStableFunc(openings, func(a, b mwv1alpha1.Opening) int {
		return cmp.Or(a.From.Compare(b.From.Time), a.Until.Compare(b.Until.Time), cmp.Compare(a.Action, b.Action))
	})
	return selected, openings[:min(len(openings), openingsMax)], ""
}

// after returns the next opening that begins after a time.
func (w *window) after(t time.Time) (from, until time.Time, ok bool) {
	from = w.schedule.Next(t.In(w.zone)).UTC()
	if from.IsZero() || from.Year() < 2 {
		return time.Time{}, time.Time{}, false
	}
	return from, from.Add(w.Duration.Duration), true
}

func clock(t time.Time) string { return t.UTC().Format(time.RFC3339) }

// worth says which nodes of an outcome the policies' savings keep, and why; nothing if the outcome evicts nobody.
//
// What is taken away without replacement saves its own price, so each node is measured by itself: one with many pods and a low price
// must not hide behind one with few and a high price. With replacements the command is measured as a whole.
//
// Example. minPerEviction 0.01: of two nodes of 0.10 USD per hour, one with 4 pods and one with 30, the first may go (0.025 per pod) and
// the second stays (0.0033 per pod).
func (p *pass) worth(o *outcome) (kept []*planner.StateNode, why string) {
	if len(p.policies) == 0 || o.evictions() == 0 {
		return nil, ""
	}
	if kept, why = p.tooMany(o); why != "" {
		return kept, why
	}
	parts := [][]*planner.StateNode{o.nodes}
	if len(o.claims) == 0 {
		parts = nil
		for _, n := range o.nodes {
			parts = append(parts, []*planner.StateNode{n})
		}
	}
	for _, part := range parts {
		if text := p.tooLittle(o, part); text != "" {
			kept, why = append(kept, part...), cmp.Or(why, text)
		}
	}
	return kept, why
}

// tooMany are the nodes of an outcome whose pods, with those of the nodes before them, are too many for the hour.
func (c *candidates) tooMany(o *outcome) (kept []*planner.StateNode, why string) {
	moving, first := map[string]int{}, map[string]bool{}
	for _, n := range o.nodes {
		pods := len(reschedulable(n))
		if pods == 0 {
			continue
		}
		for _, rule := range c.policies[n.NodePool] {
			if most := rule.Spec.MaxEvictionsPerHour; most != nil && first[n.NodePool] {
				if moved, _ := c.s.Ledger.Evictions(n.NodePool, c.s.Now); moved+moving[n.NodePool]+pods > int(*most) {
					kept, why = append(kept, n), fmt.Sprintf("DisruptionPolicy %q lets %d pods of NodePool %q move in an hour", rule.Name, *most, n.NodePool)
					break
				}
			}
		}
		if !slices.Contains(kept, n) {
			first[n.NodePool] = true
			moving[n.NodePool] += pods
		}
	}
	return kept, why
}

// tooLittle says which policy finds that taking these nodes of an outcome away saves too little; "" if none does.
func (p *pass) tooLittle(o *outcome, nodes []*planner.StateNode) string {
	before := p.priceOf(nodes)
	saved := before
	for i := range o.claims {
		saved -= o.claims[i].Cheapest.MicroUSDPerHour
	}
	evictions, weight := int64(0), int64(0)
	for _, m := range o.pods {
		if slices.Contains(nodes, m.from) {
			evictions++
			weight += max(0, planner.EvictionCost(m.Pod)) / costGrain
		}
	}
	if evictions == 0 {
		return ""
	}
	for _, n := range nodes {
		for _, rule := range p.policies[n.NodePool] {
			if text := rule.savings.shortfall(saved, before, evictions, weight, p.lifeOf(n, rule)); text != "" {
				return fmt.Sprintf("DisruptionPolicy %q: %s", rule.Name, text)
			}
		}
	}
	return ""
}

// lifeOf is for how long a saving on a node's NodePool counts: the policy's horizon, at most the NodePool's expireAfter.
func (c *candidates) lifeOf(n *planner.StateNode, rule *policy) time.Duration {
	life := rule.savings.horizon
	if pool := c.s.World.NodePool(n.NodePool); pool != nil {
		if d := pool.Spec.Template.Spec.ExpireAfter.Duration; d != nil && *d > 0 {
			life = min(life, *d)
		}
	}
	return life
}

// shortfall says what is missing to be worth it; saved and before in micro USD per hour, weight in grains of EvictionCostUnit.
func (s *savings) shortfall(saved, before, evictions, weight int64, life time.Duration) string {
	switch {
	case saved < s.perHour:
		return fmt.Sprintf("saves %s USD per hour, minPerHour is %s", usd(saved), usd(s.perHour))
	case mul(saved, 100).Cmp(mul(before, s.percent)) < 0:
		return fmt.Sprintf("saves %s of %s USD per hour, minPercent is %d", usd(saved), usd(before), s.percent)
	case big.NewInt(saved).Cmp(mul(s.perEviction, evictions)) < 0:
		return fmt.Sprintf("saves %s USD per hour with %d evictions, minPerEviction is %s", usd(saved), evictions, usd(s.perEviction))
	}
	if s.costPerEviction == 0 {
		return ""
	}
	gain := mul(saved, int64(life/time.Second))                    // micro USD per hour x seconds
	cost := mul(s.costPerEviction, weight)                         // micro USD x grains
	cost.Div(cost, big.NewInt(planner.EvictionCostUnit/costGrain)) // micro USD
	if gain.Cmp(new(big.Int).Mul(cost, big.NewInt(3600))) < 0 {
		return fmt.Sprintf("saves %s USD in %s, its %d evictions cost %s", usd(new(big.Int).Div(gain, big.NewInt(3600)).Int64()), life, evictions, usd(cost.Int64()))
	}
	return ""
}

func mul(a, b int64) *big.Int { return new(big.Int).Mul(big.NewInt(a), big.NewInt(b)) }

// usd writes micro USD as USD.
func usd(micro int64) string {
	sign, abs := "", micro
	if micro < 0 {
		sign, abs = "-", -micro
	}
	return sign + strings.TrimRight(strings.TrimRight(fmt.Sprintf("%d.%06d", abs/1e6, abs%1e6), "0"), ".")
}
