package view

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"millwright/store/audit/plan"
	"millwright/store/audit/whatif"
)

// ErrQuestion: what is asked cannot be planned for, as the rest of the text says.
var ErrQuestion = errors.New("cannot be planned")

// ErrPlanning: a plan for the same person is being made.
var ErrPlanning = errors.New("your last plan is still being made")

const (
	// plansMax bounds the plans that are made at a time: each takes a core.
	plansMax = 2
	// planTimeout bounds how long somebody waits for a plan. One that takes longer is stopped between two
	// steps, and counts until then.
	planTimeout = 20 * time.Second
	// PlanInputMax bounds what is planned for, in bytes; planPodsMax the pods of its workloads.
	PlanInputMax = 1 << 20
	planPodsMax  = 5000
	nodeTimeMax  = 24 * time.Hour
)

// PlanRequest is what would be different. What is given is laid over the cluster, in place of objects of the
// same name; nothing is changed.
type PlanRequest struct {
	// Manifests are Kubernetes objects as YAML or JSON: NodePools, EC2NodeClasses, DisruptionPolicies,
	// NodeOverlays, pods, and Deployments, StatefulSets, ReplicaSets and Jobs for as many pods as they ask
	// for.
	Manifests string `json:"manifests,omitempty"`
	// Catalog has the instance types of every NodePool, Prices a list of prices, as millctl plan reads them.
	Catalog string `json:"catalog,omitempty"`
	Prices  string `json:"prices,omitempty"`
	// Alone: there is nothing but what is given, which then needs a catalogue.
	Alone bool `json:"alone,omitempty"`
	// NodeTime is how long a roll-out takes for one wave of nodes, such as 3m.
	NodeTime string `json:"nodeTime,omitempty"`
	// Record is a decision to take again instead, on what it was taken on, with other NodePools,
	// EC2NodeClasses, DisruptionPolicies, NodeOverlays or prices.
	Record uint64 `json:"record,omitempty"`
	// Only is provisioning or disruption, if the other is not asked for; "": both are.
	Only string `json:"only,omitempty"`
	// Unsettled: of disruption only the commands of the next pass, and not all until the cluster is at rest.
	Unsettled bool `json:"unsettled,omitempty"`
	// PodsAlone: Deployments and the like stand for no pods.
	PodsAlone bool `json:"podsAlone,omitempty"`
	// Now is the time of the plan (RFC 3339); "": the present.
	Now string `json:"now,omitempty"`
	// PreferencePolicy, MinValuesPolicy, FeatureGates, NodeCost and EvictionCost take the place of the
	// options in force, as the flags of millctl plan do; the costs are in USD, from 0 to 1000.
	PreferencePolicy string   `json:"preferencePolicy,omitempty"`
	MinValuesPolicy  string   `json:"minValuesPolicy,omitempty"`
	FeatureGates     string   `json:"featureGates,omitempty"`
	NodeCost         *float64 `json:"nodeCost,omitempty"`
	EvictionCost     *float64 `json:"evictionCost,omitempty"`
	// Text: the plans come as tables too.
	Text bool `json:"text,omitempty"`
}

// What PlanRequest.Only may be.
const (
	OnlyProvisioning = "provisioning"
	OnlyDisruption   = "disruption"
)

// Plan is what would be done.
type Plan struct {
	// AsOf is what is known of the cluster, and LedgerSeq of the log; of a plan for manifests alone there is
	// neither.
	AsOf      time.Time `json:"asOf,omitzero"`
	LedgerSeq uint64    `json:"ledgerSeq,omitempty"`
	// Nodes and MicroUSDPerHour are those of the cluster now.
	Nodes           int   `json:"nodes"`
	MicroUSDPerHour int64 `json:"microUSDPerHour"`
	// Provisioning is for the pods that need a place. Disruption then carries out every command that
	// follows for the nodes that there are now, until the cluster is at rest.
	Provisioning *plan.Report     `json:"provisioning,omitempty"`
	Disruption   *plan.Disruption `json:"disruption,omitempty"`
	// ProvisioningText and DisruptionText are the tables that were asked for.
	ProvisioningText string `json:"provisioningText,omitempty"`
	DisruptionText   string `json:"disruptionText,omitempty"`
	// Instead is what a decision on record would have been; it comes alone.
	Instead *whatif.Report `json:"instead,omitempty"`
	// Seconds that it took.
	Seconds float64 `json:"seconds"`
}

// places says for whom something is being worked out that takes a core.
type places struct {
	sync.Mutex
	by map[string]bool
	// most are worked out at a time; taken is what somebody hears who has one already.
	most  int
	taken error
}

// enter takes a place, for one person at most one.
func (p *places) enter(who string) (leave func(), err error) {
	p.Lock()
	defer p.Unlock()
	switch {
	case p.by[who]:
		return nil, p.taken
	case len(p.by) >= p.most:
		return nil, ErrBusy
	}
	if p.by == nil {
		p.by = map[string]bool{}
	}
	p.by[who] = true
	return func() {
		p.Lock()
		defer p.Unlock()
		delete(p.by, who)
	}, nil
}

// Plan answers what would be done, for somebody. It returns ErrQuestion if that cannot be said, ErrPlanning
// or ErrBusy if too much is being planned.
func (v *View) Plan(ctx context.Context, who string, q PlanRequest) (*Plan, error) {
	return planned(ctx, v, who, func(ctx context.Context) (*Plan, error) {
		if q.Record != 0 {
			return v.instead(ctx, q)
		}
		return v.plan(ctx, q)
	})
}

// planned runs fn in a place of its own, and waits for it as long as somebody is to wait, which is how long
// its context lasts. It may fail on objects that no API server has validated: then the question is at fault.
func planned[T any](ctx context.Context, v *View, who string, fn func(context.Context) (T, error)) (T, error) {
	type answer struct {
		made T
		err  error
	}
	var none T
	leave, err := v.planning.enter(who)
	if err != nil {
		return none, err
	}
	ctx, cancel := context.WithTimeout(ctx, planTimeout)
	defer cancel()
	done := make(chan answer, 1)
	go func() {
		var a answer
		defer func() {
			if p := recover(); p != nil {
				a.err = fmt.Errorf("%w: the planner failed on it: %v", ErrQuestion, p)
			}
			leave()
			done <- a
		}()
		a.made, a.err = fn(ctx)
	}()
	select {
	case a := <-done:
		return a.made, a.err
	case <-ctx.Done():
		return none, fmt.Errorf("%w: it takes longer than %s", ErrQuestion, planTimeout)
	}
}

func (v *View) plan(ctx context.Context, q PlanRequest) (*Plan, error) {
	c, err := q.config()
	if err != nil {
		return nil, err
	}
	began := v.cfg.Now()
	if c.Now.IsZero() {
		c.Now = began
	}
	c.Clock, c.Stop = v.cfg.Now, func() bool { return ctx.Err() != nil }
	out := &Plan{}
	if q.Alone {
		err = q.alone(c, out)
	} else {
		err = v.planOn(c, q, out)
	}
	if err == nil && q.Text {
		err = out.write()
	}
	if err != nil {
		return nil, err
	}
	out.Seconds = v.cfg.Now().Sub(began).Seconds()
	return out, nil
}

// alone plans for what is given and nothing else.
func (q *PlanRequest) alone(c plan.Config, out *Plan) (err error) {
	if q.Only != OnlyDisruption {
		out.Provisioning, err = plan.Run(c)
	}
	if err == nil && q.Only != OnlyProvisioning {
		out.Disruption, err = plan.RunDisruption(c, !q.Unsettled)
	}
	if err != nil {
		return fmt.Errorf("%w: %w", ErrQuestion, err)
	}
	return nil
}

// planOn plans for the cluster as it is now.
func (v *View) planOn(c plan.Config, q PlanRequest, out *Plan) error {
	s, err := v.snapshot()
	if err != nil {
		return err
	}
	now, err := v.Now()
	if err != nil {
		return err
	}
	out.AsOf, out.LedgerSeq, out.Nodes, out.MicroUSDPerHour = s.World.AsOf().UTC(), s.Ledger.Seq(), len(now.Nodes), now.MicroUSDPerHour
	for _, only := range []string{OnlyProvisioning, OnlyDisruption} {
		if q.Only != "" && q.Only != only {
			continue
		}
		copied, err := plan.Server{World: s.World, Ledger: s.Ledger}.Clone()
		if err != nil {
			return err
		}
		if only == OnlyDisruption {
			out.Disruption, err = plan.RunDisruptionOn(c, copied, !q.Unsettled)
		} else {
			out.Provisioning, err = plan.RunOn(c, copied)
		}
		if err != nil {
			return fmt.Errorf("%w: %w", ErrQuestion, err)
		}
	}
	return nil
}

// write the plans as tables.
func (p *Plan) write() error {
	var text strings.Builder
	if p.Provisioning != nil {
		if err := p.Provisioning.WriteTable(&text); err != nil {
			return fmt.Errorf("write the plan: %w", err)
		}
		p.ProvisioningText = text.String()
	}
	text.Reset()
	if p.Disruption != nil {
		if err := p.Disruption.WriteTable(&text); err != nil {
			return fmt.Errorf("write the plan: %w", err)
		}
		p.DisruptionText = text.String()
	}
	return nil
}

// config is the question for the planners.
func (q PlanRequest) config() (c plan.Config, err error) {
	if n := len(q.Manifests) + len(q.Catalog) + len(q.Prices); n > PlanInputMax {
		return c, fmt.Errorf("%w: it is %d bytes long, at most %d are planned for", ErrQuestion, n, PlanInputMax)
	}
	if err := q.options(&c); err != nil {
		return c, fmt.Errorf("%w: %w", ErrQuestion, err)
	}
	c.Workloads, c.PodsMost, c.NodeTime = !q.PodsAlone, planPodsMax, plan.DefaultNodeTime
	if q.NodeTime != "" {
		if c.NodeTime, err = time.ParseDuration(q.NodeTime); err != nil || c.NodeTime <= 0 || c.NodeTime > nodeTimeMax {
			return c, fmt.Errorf("%w: nodeTime %q: must be a span such as 3m, at most %s", ErrQuestion, q.NodeTime, nodeTimeMax)
		}
	}
	if q.Manifests != "" {
		c.Sources = []plan.Source{plan.Text("manifests", q.Manifests)}
	}
	if q.Catalog != "" {
		c.Catalog = plan.Text("catalog", q.Catalog)
	}
	if q.Prices != "" {
		c.Prices = plan.Text("prices", q.Prices)
	}
	switch {
	case q.Record != 0 && (q.Alone || q.Catalog != ""):
		return c, fmt.Errorf("%w: a decision is taken again with the instance types that it was taken on", ErrQuestion)
	case q.Alone && q.Manifests == "":
		return c, fmt.Errorf("%w: manifests are missing", ErrQuestion)
	case q.Alone && q.Catalog == "":
		return c, fmt.Errorf("%w: without the cluster a catalogue is needed", ErrQuestion)
	case q.Alone && q.Prices != "":
		return c, fmt.Errorf("%w: without the cluster the catalogue has the prices", ErrQuestion)
	}
	return c, nil
}

// options of the planners that are asked for.
func (q *PlanRequest) options(c *plan.Config) (err error) {
	for _, x := range []struct {
		name, value string
		known       []string
	}{
		{"only", q.Only, []string{"", OnlyProvisioning, OnlyDisruption}},
		{"preferencePolicy", q.PreferencePolicy, []string{"", "Respect", "Ignore"}},
		{"minValuesPolicy", q.MinValuesPolicy, []string{"", "Strict", "BestEffort"}},
	} {
		if !slices.Contains(x.known, x.value) {
			return fmt.Errorf("%s %q: must be %s", x.name, x.value, strings.Join(x.known[1:], " or "))
		}
	}
	for name, usd := range map[string]*float64{"nodeCost": q.NodeCost, "evictionCost": q.EvictionCost} {
		if usd != nil && !(*usd >= 0 && *usd <= 1000) {
			return fmt.Errorf("%s %v: must be from 0 to 1000", name, *usd)
		}
	}
	if q.Now != "" {
		if c.Now, err = time.Parse(time.RFC3339, q.Now); err != nil {
			return fmt.Errorf("now %q: must be as in 2026-03-02T10:00:00Z", q.Now)
		}
	}
	c.PreferencePolicy, c.MinValuesPolicy, c.FeatureGates, c.NodeCost, c.EvictionCost = q.PreferencePolicy, q.MinValuesPolicy, q.FeatureGates, q.NodeCost, q.EvictionCost
	return nil
}
