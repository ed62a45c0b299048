package policy

import (
	"cmp"
	"fmt"
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
	"millwright/planner/nodepool"
	"millwright/planner/options"
	"millwright/planner/timezone"
)

// payBackHorizon is what counts as the life of a new state if a policy says nothing.
const payBackHorizon = 24 * time.Hour

// Policy is a DisruptionPolicy that was read.
type Policy struct {
	*mwv1alpha1.DisruptionPolicy
	selector labels.Selector
	windows  []window
	savings  savings
	// fault is what can't be read; then nothing is disrupted voluntarily in what it selects. selectsAll: the
	// selector can't be read.
	fault      string
	selectsAll bool
	// judged is what windows say at judgedAt, by reason: the same of all nodes.
	judged   map[karpv1.DisruptionReason]*Refusal
	judgedAt time.Time
}

// savings in micro USD; 0 asks for nothing.
type savings struct {
	perHour, perEviction int64
	percent              int64
	// costPerEviction is paid back within horizon; 0: no such rule.
	costPerEviction int64
	horizon         time.Duration
	// spotPercent must have been saved at the spot prices of spotFor; 0: no such rule.
	spotPercent int64
	spotFor     time.Duration
}

// window is a schedule with its zone.
type window struct {
	mwv1alpha1.Window
	schedule cron.Schedule
	zone     *time.Location
	// byClock: the schedule is by what clocks show also on days on which they change.
	byClock bool
}

// read never fails: what can't be read is its fault. It follows a revision of the planners' rules.
func read(o *mwv1alpha1.DisruptionPolicy, revision int) *Policy {
	p := &Policy{DisruptionPolicy: o, selector: labels.Everything()}
	if o.Spec.NodePoolSelector != nil {
		selector, err := metav1.LabelSelectorAsSelector(o.Spec.NodePoolSelector)
		if err != nil {
			p.fault, p.selectsAll = fmt.Sprintf("spec.nodePoolSelector: %v", err), true
			return p
		}
		p.selector = selector
	}
	if o.Spec.IgnorePodEvents != nil {
		if _, err := metav1.LabelSelectorAsSelector(o.Spec.IgnorePodEvents); err != nil {
			p.fault = fmt.Sprintf("spec.ignorePodEvents: %v", err)
			return p
		}
	}
	for i, w := range o.Spec.Windows {
		read, err := readWindow(w)
		if err != nil {
			p.fault = fmt.Sprintf("spec.windows[%d].%v", i, err)
			return p
		}
		read.byClock = revision >= options.Revision1
		p.windows = append(p.windows, read)
	}
	if fault := unknownValue(&o.Spec); fault != "" && revision >= options.Revision1 {
		p.fault = fault
		return p
	}
	err := checkReturn(o.Spec.ReturnToPreferred)
	if err != nil {
		p.fault = fmt.Sprintf("spec.returnToPreferred.%v", err)
		return p
	}
	if err = checkDrainOut(o.Spec.DrainOut); err != nil {
		p.fault = fmt.Sprintf("spec.drainOut.%v", err)
		return p
	}
	if p.savings, err = readSavings(o.Spec.Savings); err != nil {
		p.fault = fmt.Sprintf("spec.savings.%v", err)
	}
	return p
}

func readWindow(w mwv1alpha1.Window) (window, error) {
	schedule, err := nodepool.ParseSchedule(w.Schedule)
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
	return window{Window: w, schedule: schedule, zone: zone}, nil
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
	if s.Spot != nil {
		out.spotPercent, out.spotFor = int64(s.Spot.MinPercent), s.Spot.For.Duration
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

// ByPool returns the policies that select each NodePool, by name; nil if there are none.
func ByPool(s *planner.Snapshot) map[string][]*Policy {
	list := s.World.DisruptionPolicies()
	if len(list) == 0 {
		return nil
	}
	byPool := map[string][]*Policy{}
	for _, o := range list {
		p := read(o, s.Options.Revision)
		for _, pool := range s.World.NodePools() {
			if p.selects(pool) {
				byPool[pool.Name] = append(byPool[pool.Name], p)
			}
		}
	}
	return byPool
}

func (p *Policy) selects(pool *karpv1.NodePool) bool {
	return p.selectsAll || p.selector.Matches(labels.Set(pool.Labels))
}

// CountSelected counts the names, which may come more than once, of NodePools that a DisruptionPolicy is
// about.
func CountSelected(o *mwv1alpha1.DisruptionPolicy, s *planner.Snapshot, names []string) (count int) {
	p := read(o, s.Options.Revision)
	for _, name := range names {
		if pool := s.World.NodePool(name); pool != nil && p.selects(pool) {
			count++
		}
	}
	return count
}

// openingsMax bounds the openings that a policy's status names.
const openingsMax = 10

// Status is what a DisruptionPolicy's status is to say at a time: the NodePools it selects, its next
// openings, and what of it can't be read ("" if all can), by the present rules.
func Status(o *mwv1alpha1.DisruptionPolicy, pools []*karpv1.NodePool, now time.Time) (selected int, openings []mwv1alpha1.Opening, fault string) {
	p := read(o, options.PresentRevision)
	for _, pool := range pools {
		if p.selects(pool) {
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

// Clock writes a time as people read it.
func Clock(t time.Time) string { return t.UTC().Format(time.RFC3339) }
