package history

import (
	"cmp"
	"maps"
	"slices"
	"time"

	"millwright/planner/ledger"
)

// Names of what is for no namespace or team, which none of these can have.
const (
	unrequested = "(unrequested)"
	unobserved  = "(not observed)"
	unlabelled  = "(no label)"
	noPods      = "(no pods)"
)

// SpotShare is what spot instances saved for the pods of a namespace or a team, in micro USD.
type SpotShare struct {
	// Name of the namespace or the team: "(unrequested)" for what no pod requested of the instances, "(no
	// label)" for pods without a team, "(not observed)" for times at which no console saw whose pods there
	// were, "(others)" for what is not among the itemsMax largest.
	Name     string `json:"name"`
	OnDemand int64  `json:"onDemand"`
	Saved    int64  `json:"saved"`
}

// share is whose pods something of a NodePool was for, by the names of SpotShare.
type share struct{ Pool, Namespace, Team string }

// weight of a share: what it cost on demand and as it was, in billionths of a USD, as far as it was seen.
type weight struct{ OnDemand, Cost int64 }

func (w weight) plus(o weight) weight { return weight{w.OnDemand + o.OnDemand, w.Cost + o.Cost} }

// shareOf is where a share of a record counts.
func shareOf(p *ledger.SharesObserved, x *ledger.SpotShare) share {
	s := share{x.NodePool, x.Namespace, x.Team}
	switch {
	case s.Namespace == "":
		s.Namespace, s.Team = unrequested, unrequested
	case p.Label == "":
		s.Team = unobserved
	case s.Team == "":
		s.Team = unlabelled
	}
	return s
}

// observed takes in what a record tells of shares: of an hour or a command the first time.
func (h *History) observed(p *ledger.SharesObserved) {
	if p.Label != "" {
		h.label = p.Label
	}
	if hours := &h.shares[0]; !p.Hour.IsZero() && len(hours.sums[hours.number(p.Hour)]) == 0 {
		for i := range h.shares {
			for j := range p.Spot {
				h.shares[i].sum(h.shares[i].number(p.Hour), shareOf(p, &p.Spot[j]), weight{p.Spot[j].OnDemand, p.Spot[j].Cost})
			}
		}
	}
	for _, m := range p.Moved {
		if c := h.commands[m.Command]; c != nil && c.nodes[m.Claim] != nil && c.nodes[m.Claim].teams == nil {
			c.nodes[m.Claim].teams = maps.Clone(m.Teams)
		}
	}
}

// Observe says what was seen of an hour that has not ended. It counts until a record tells of the hour, and
// is not kept.
func (h *History) Observe(p *ledger.SharesObserved) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.live = p
	if p.Label != "" {
		h.label = p.Label
	}
}

// Told reports that a record tells of an hour that is not forgotten.
func (h *History) Told(hour time.Time) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return len(h.shares[0].sums[h.shares[0].number(hour)]) > 0
}

// SpotPrices of a running spot instance, in micro USD per hour.
type SpotPrices struct {
	NodePool       string
	OnDemand, Cost int64
}

// SpotRunning are the running spot instances whose prices are known, by claim.
func (h *History) SpotRunning() map[string]SpotPrices {
	h.mu.Lock()
	defer h.mu.Unlock()
	prices := map[string]SpotPrices{}
	for name, c := range h.claims {
		if c.up && c.spot && c.unpriced() == 0 {
			prices[name] = SpotPrices{c.pool, c.onDemand, c.price}
		}
	}
	return prices
}

// TeamsTold reports that a record tells of which teams the pods of a claim are that a command takes.
func (h *History) TeamsTold(command, claim string) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	c := h.commands[command]
	return c != nil && c.nodes[claim] != nil && c.nodes[claim].teams != nil
}

// weightsIn are the weights of a span by NodePool, each list by name; none if nothing was seen. An hour that
// is forgotten, since there are many owners, has the weights of its day.
func (h *History) weightsIn(resolution int, number int64) map[string][]weighed {
	s := &h.shares[resolution]
	if days := &h.shares[1]; resolution == 0 && number < s.floor {
		s, number = days, days.number(s.begin(number))
	}
	sums := s.sums[number]
	if hours := &h.shares[0]; h.live != nil && s.number(h.live.Hour) == number && len(hours.sums[hours.number(h.live.Hour)]) == 0 {
		sums = maps.Clone(sums)
		if sums == nil {
			sums = map[share]weight{}
		}
		for i := range h.live.Spot {
			key := shareOf(h.live, &h.live.Spot[i])
			sums[key] = sums[key].plus(weight{h.live.Spot[i].OnDemand, h.live.Spot[i].Cost})
		}
	}
	pools := map[string][]weighed{}
	for key, w := range sums {
		pools[key.Pool] = append(pools[key.Pool], weighed{key, w})
	}
	for _, list := range pools {
		slices.SortFunc(list, func(a, b weighed) int {
			return cmp.Or(cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Team, b.Team))
		})
	}
	return pools
}

type weighed struct {
	share
	weight
}

// owners adds up by namespace and by team.
type owners struct{ namespaces, teams map[string]*SpotShare }

func (o *owners) add(s share, onDemand, cost int64) {
	for _, x := range []struct {
		sums map[string]*SpotShare
		name string
	}{{o.namespaces, s.Namespace}, {o.teams, s.Team}} {
		if x.sums[x.name] == nil {
			x.sums[x.name] = &SpotShare{Name: x.name}
		}
		x.sums[x.name].OnDemand += onDemand
		x.sums[x.name].Saved += onDemand - cost
	}
}

// split what a NodePool's instances cost in a span by the weights that were seen in it.
func (o *owners) split(list []weighed, onDemand, cost int64) {
	var sum weight
	for _, x := range list {
		sum = sum.plus(x.weight)
	}
	if sum.OnDemand <= 0 || sum.Cost <= 0 {
		o.add(share{Namespace: unobserved, Team: unobserved}, onDemand, cost)
		return
	}
	on, paid := splitter{onDemand, sum.OnDemand}, splitter{cost, sum.Cost}
	for _, x := range list {
		o.add(x.share, on.take(x.OnDemand), paid.take(x.Cost))
	}
}

// shareOut shares what spot saved from a span on out to namespaces and teams, span by span.
func (h *History) shareOut(resolution int, first int64, now time.Time, out *Spot) {
	s := &h.spot[resolution]
	o := owners{map[string]*SpotShare{}, map[string]*SpotShare{}}
	begun := map[int64][]*claim{}
	for _, c := range h.spotRunning() {
		if n := s.number(later(c.since, out.Since)); c.unpriced() == 0 {
			begun[n] = append(begun[n], c)
		}
	}
	running := map[string]weight{} // those of earlier spans, per hour
	present := s.number(now)
	numbers := []int64{}
	for n := first; n <= present; n++ {
		numbers = append(numbers, n)
	}
	for _, n := range slices.Sorted(maps.Keys(s.sums)) { // as the clocks of others have it
		if n > max(present, first-1) {
			numbers = append(numbers, n)
		}
	}
	for _, n := range numbers {
		costs := map[string]weight{}
		for pool, x := range s.sums[n] {
			costs[pool] = weight{x.OnDemand, x.OnDemand - x.Saved}
		}
		end := s.begin(n + 1)
		if now.Before(end) {
			end = now
		}
		for pool, w := range running {
			ran := end.Sub(s.begin(n))
			costs[pool] = costs[pool].plus(weight{micro(w.OnDemand, ran), micro(w.Cost, ran)})
		}
		for _, c := range begun[n] {
			ran := end.Sub(later(c.since, out.Since))
			costs[c.pool] = costs[c.pool].plus(weight{micro(c.onDemand, ran), micro(c.price, ran)})
			running[c.pool] = running[c.pool].plus(weight{c.onDemand, c.price})
		}
		weights := h.weightsIn(resolution, n)
		for _, pool := range slices.Sorted(maps.Keys(costs)) {
			if w := costs[pool]; w != (weight{}) {
				o.split(weights[pool], w.OnDemand, w.Cost)
			}
		}
	}
	out.Namespaces, out.Teams = ranked(o.namespaces, out.Total), []SpotShare{}
	if h.label != "" {
		out.Teams = ranked(o.teams, out.Total)
	}
}

// ranked are the itemsMax largest by name, which add up to a total whose sums were rounded otherwise.
func ranked(sums map[string]*SpotShare, total SpotSaving) []SpotShare {
	list := slices.SortedFunc(maps.Values(sums), func(a, b *SpotShare) int {
		return cmp.Or(cmp.Compare(b.OnDemand, a.OnDemand), cmp.Compare(a.Name, b.Name))
	})
	out := []SpotShare{}
	rest := SpotShare{OnDemand: total.OnDemand, Saved: total.Saved}
	for i, x := range list {
		if i >= itemsMax {
			x.Name = others
		}
		if i > itemsMax {
			out[itemsMax].OnDemand, out[itemsMax].Saved = out[itemsMax].OnDemand+x.OnDemand, out[itemsMax].Saved+x.Saved
		} else {
			out = append(out, *x)
		}
		rest.OnDemand, rest.Saved = rest.OnDemand-x.OnDemand, rest.Saved-x.Saved
	}
	if len(out) > 0 {
		out[0].OnDemand, out[0].Saved = out[0].OnDemand+rest.OnDemand, out[0].Saved+rest.Saved
	}
	slices.SortFunc(out, func(a, b SpotShare) int { return cmp.Compare(a.Name, b.Name) })
	return out
}
