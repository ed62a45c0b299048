package api

import (
	"context"
	"net/http"
	"time"

	"millwright/services/console/access"
	"millwright/services/console/history"
	"millwright/services/console/index"
	"millwright/services/console/view"
	"millwright/services/internal/review"
	"millwright/store/audit/overview"
	"millwright/store/audit/shadow"
)

// Prefix of all paths.
const Prefix = "/api/v1"

// TailPath is the path, after Prefix, of the operation that follows the log.
const TailPath = "/decisions/tail"

// route is an operation of the API.
type route struct {
	method, path string
	// id names the operation, summary says what it does.
	id, summary string
	right       review.Right
	parameters  []parameter
	// body is a value of the type that is read, nil for none; result one of the type that is answered.
	body, result any
	// question is a value of the type that a question of a POST is read into, which changes nothing; nil: it
	// has none.
	question any
	// answer makes the result. A stream writes by itself instead.
	answer func(a *API, ctx context.Context, q *question) (any, error)
	stream func(a *API, w http.ResponseWriter, r *http.Request, q *question)
	// streams is the content type of a stream; "": server-sent events.
	streams string
	// recorded: that it was asked is written into the log.
	recorded bool
	// text makes the result of another kind than JSON; nil: it is JSON.
	text *text
	// open: it says nothing about the cluster, and needs no token.
	open bool
}

// text of an answer that is not JSON.
type text struct {
	kind string
	of   func(result any) []byte
}

// parameter of a route, in its query or, if the path names it, there.
type parameter struct {
	name, about string
	// values that it may have; nil: any.
	values []string
	// integer: a whole number from 0 on. repeated: it may be given more than once.
	integer, repeated bool
}

// Nodes is a page of the nodes.
type Nodes struct {
	Items []view.Node `json:"items"`
	// Next is the cursor of the next page; "" on the last one.
	Next            string `json:"next,omitempty"`
	Total           int    `json:"total"`
	MicroUSDPerHour int64  `json:"microUSDPerHour"`
	// LeastMicroUSDPerHour is a price below which no nodes of the NodePools can hold what their pods request.
	LeastMicroUSDPerHour int64 `json:"leastMicroUSDPerHour"`
	// StaysAsOf is when it was found why nodes stay; it is left out while that is not known.
	StaysAsOf time.Time `json:"staysAsOf,omitzero"`
}

// Pods is a page of the pods without a node.
type Pods struct {
	Items []view.Pod `json:"items"`
	Next  string     `json:"next,omitempty"`
	Total int        `json:"total"`
}

// NodePools are all there are, with nodes of none under the name "".
type NodePools struct {
	Items []view.Pool `json:"items"`
}

// Decisions is a page of the log, newest first.
type Decisions struct {
	Items []index.Row `json:"items"`
	Next  string      `json:"next,omitempty"`
	// From is the first record that is looked at, Head the last one of the log.
	From uint64 `json:"from"`
	Head uint64 `json:"head"`
}

// Summary of what happened since a time.
type Summary struct {
	Since     time.Time `json:"since"`
	Sentences []string  `json:"sentences"`
}

// Commands is a page of those that run or wait for approval.
type Commands struct {
	Items []overview.CommandLine `json:"items"`
	Next  string                 `json:"next,omitempty"`
	Total int                    `json:"total"`
}

// Rollouts of drifted nodes in waves.
type Rollouts struct {
	Items []overview.RolloutLine `json:"items"`
}

// Health of images, instance types and zones.
type Health struct {
	Items []overview.HealthRow `json:"items"`
}

// Order is what an act needs.
type Order struct {
	// Reason is why, for the record.
	Reason string `json:"reason"`
	// For is how long the nodes of a rejected command are not proposed again, such as 24h, which it is if it
	// is missing.
	For string `json:"for,omitempty"`
	// Level of a stop: voluntary or all.
	Level string `json:"level,omitempty"`
}

// Recorded says that an order is in the log.
type Recorded struct {
	// Record is 0 if there was nothing to do.
	Record uint64 `json:"record"`
	By     string `json:"by"`
	Text   string `json:"text"`
}

// Problem is the body of every answer that is not a success.
type Problem struct {
	Status  int    `json:"status"`
	Message string `json:"message"`
}

var (
	limit     = parameter{name: "limit", about: "items of a page, at most 500", integer: true}
	cursor    = parameter{name: "cursor", about: "next of the page before"}
	since     = parameter{name: "since", about: "only what is not older: a time (RFC 3339) or a span such as 24h"}
	filtering = []parameter{
		{name: "kind", about: "only records of this kind, such as CommandStarted", repeated: true},
		{name: "object", about: "only records about this subject, such as node/NAME or pod/NAMESPACE/NAME"},
		{name: "since", about: "only what is not older: a time (RFC 3339) or a span such as 1h"},
		{name: "until", about: "only what is older: a time (RFC 3339) or a span before now such as 1h"},
		{name: "decisions", about: "true: only what was planned, not what came of it", values: []string{"true", "false"}},
	}
)

var routes = []route{
	{method: http.MethodGet, path: "/openapi.json", id: "getOpenAPI", summary: "This document", open: true, result: map[string]any{},
		answer: func(a *API, _ context.Context, _ *question) (any, error) { return a.document, nil }},
	{method: http.MethodGet, path: "/status", id: "getStatus", summary: "Leaders, lags, stop, claims, commands, drains and alarms at a glance",
		right: access.Read, result: overview.Status{},
		answer: func(a *API, ctx context.Context, _ *question) (any, error) { return a.cfg.View.Status(ctx) }},
	{method: http.MethodGet, path: "/nodes", id: "listNodes", summary: "Nodes by name, those to come included", right: access.Read,
		parameters: []parameter{limit, cursor, {name: "nodepool", about: "only those of this NodePool"}, {name: "state", about: "only those in this state"}},
		result:     Nodes{}, answer: (*API).nodes},
	{method: http.MethodGet, path: "/pods", id: "listPods", summary: "Pods without a node by name, with what was decided about them", right: access.Read,
		parameters: []parameter{limit, cursor}, result: Pods{}, answer: (*API).pods},
	{method: http.MethodGet, path: "/nodepools", id: "listNodePools", summary: "NodePools with what runs in them", right: access.Read, result: NodePools{},
		answer: (*API).pools},
	{method: http.MethodGet, path: "/decisions", id: "listDecisions", summary: "What was decided and done, newest first", right: access.Read,
		parameters: append([]parameter{limit, cursor}, filtering...), result: Decisions{}, answer: (*API).decisions},
	{method: http.MethodGet, path: TailPath, id: "tailDecisions", right: access.Read,
		parameters: append([]parameter{{name: "after", about: "begin with the records after this one, as with the header Last-Event-ID, which goes before it", integer: true}}, filtering...),
		summary:    "New records as server-sent events: each has its sequence as id, and with the header Last-Event-ID those after it come first",
		stream:     (*API).tail},
	{method: http.MethodGet, path: "/decisions/{seq}", id: "getDecision", summary: "A record with all that it says, and what came of it", right: access.Read,
		parameters: []parameter{{name: "seq", about: "sequence of the record", integer: true}}, result: view.Decision{}, answer: (*API).decision},
	{method: http.MethodGet, path: "/why/{kind}/{name...}", id: "why", summary: "The story of an object, also of one that is no more", right: access.Read,
		parameters: []parameter{{name: "kind", about: "kind of the object", values: view.Kinds}, {name: "name", about: "NAME, or NAMESPACE/NAME"}},
		result:     view.Story{}, answer: (*API).why},
	{method: http.MethodGet, path: "/commands", id: "listCommands", summary: "Commands that run, or wait for approval, oldest first", right: access.Read,
		parameters: []parameter{{name: "limit", about: "items of a page, at most 500, which it is if it is missing", integer: true}, cursor,
			{name: "state", about: "only those in this state", values: overview.CommandStates}}, result: Commands{}, answer: (*API).commands},
	{method: http.MethodGet, path: "/rollouts", id: "listRollouts", summary: "Roll-outs of drifted nodes in waves, by NodePool", right: access.Read, result: Rollouts{},
		answer: (*API).rollouts},
	{method: http.MethodPost, path: "/rollouts/{id}/resume", id: "resumeRollout", summary: "Let a halted roll-out begin anew", right: access.Approve,
		parameters: []parameter{{name: "id", about: "name of the NodePool"}}, body: Order{}, result: Recorded{}, answer: (*API).resumeRollout},
	{method: http.MethodGet, path: "/health", id: "getHealth", summary: "Images, instance types and zones by the nodes that failed", right: access.Read,
		parameters: []parameter{since}, result: Health{}, answer: (*API).health},
	{method: http.MethodGet, path: "/decisions/{seq}/replay", id: "replayDecision", summary: "Takes a decision again on what it was taken on, and compares", right: access.Plan,
		parameters: []parameter{{name: "seq", about: "sequence of the record", integer: true}}, result: view.Replayed{}, answer: (*API).replay},
	{method: http.MethodGet, path: "/decisions/{seq}/facts", id: "getFacts", summary: "What a decision was taken on: nodes, NodePools and pods as they were, and the options", right: access.Plan,
		parameters: []parameter{{name: "seq", about: "sequence of the record", integer: true}}, result: view.Facts{}, answer: (*API).facts},
	{method: http.MethodGet, path: "/timeline", id: "getTimeline", summary: "What happened, with the number and cost of nodes, by minute, hour or day", right: access.Read,
		parameters: []parameter{since, {name: "nodepool", about: "only this NodePool"}, {name: "kind", about: "only what happened of this kind", values: history.Kinds},
			{name: "reason", about: "only what happened for this reason, such as Drifted or expired"},
			{name: "object", about: "only what the story of this is of, such as node/NAME or pod/NAMESPACE/NAME"}}, result: history.Timeline{}, answer: (*API).timeline},
	{method: http.MethodGet, path: "/summary", id: "getSummary", summary: "What happened, in sentences", right: access.Read,
		parameters: []parameter{since}, result: Summary{}, answer: (*API).summary},
	{method: http.MethodGet, path: "/savings", id: "getSavings", summary: "What commands promised to save, and what came of it, by NodePool, namespace, team and reason; what spot instances saved, by NodePool, namespace and team",
		right: access.Read, parameters: []parameter{since}, result: history.Savings{}, answer: (*API).savings},
	{method: http.MethodGet, path: "/savings.csv", id: "exportSavings", summary: "Savings by NodePool and namespace, or by team, as CSV", right: access.Read,
		parameters: []parameter{since, {name: "by", about: "what there is a row for: each NodePool and namespace, or each team", values: []string{byNamespace, byTeam}}},
		text:       &text{"text/csv; charset=utf-8", csvOf}, answer: (*API).savingsTable},
	{method: http.MethodGet, path: "/spot-savings.csv", id: "exportSpotSavings", summary: "What spot instances saved against on demand, by NodePool, namespace or team, as CSV", right: access.Read,
		parameters: []parameter{since, {name: "by", about: "what there is a row for", values: []string{byNodePool, byNamespace, byTeam}}},
		text:       &text{"text/csv; charset=utf-8", csvOf}, answer: (*API).spotTable},
	{method: http.MethodPost, path: "/plan", id: "plan", summary: "What would be done, had the cluster these objects or prices: nodes, evictions, drift, roll-out. It changes nothing",
		right: access.Plan, question: view.PlanRequest{}, result: view.Plan{}, answer: (*API).plan},
	{method: http.MethodPost, path: "/replay", id: "replayRange", right: access.Plan, question: view.RangeRequest{}, result: view.RangeReplayed{},
		summary: "Takes the decisions of a range again on what they were taken on, or with something else, as server-sent events: progress, and in the end result or error",
		stream:  (*API).replayRange},
	{method: http.MethodGet, path: "/verify", id: "verifyLog", right: access.Plan, result: view.Verified{},
		parameters: []parameter{{name: "record", about: "sequence of a record whose hash is told too, as the event record", integer: true}},
		summary:    "Checks the hash chain of the log, as server-sent events: progress, each signed head as head, and in the end result or error",
		stream:     (*API).verify},
	{method: http.MethodGet, path: "/shadow-report", id: "getShadowReport", right: access.Plan, result: shadow.Report{},
		parameters: []parameter{{name: "since", about: "compare what happened since then: a time (RFC 3339) or a span such as 24h, which it is if it is missing"}},
		summary:    "What happened beside another controller, and what was decided in mode shadow, side by side, as server-sent events: progress, and in the end result or error",
		stream:     (*API).shadowReport},
	{method: http.MethodPost, path: "/bundles", id: "takeBundle", right: access.Bundle, question: view.BundleRequest{}, stream: (*API).bundle, streams: BundleType, recorded: true,
		summary: "Records with all that planning their decisions again takes, as one file; the trailer " + ResultHeader + " says whether it is whole. The log says who took it"},
	{method: http.MethodPost, path: "/commands/{id}/approve", id: "approveCommand", summary: "Approve a proposed command", right: access.Approve,
		parameters: []parameter{{name: "id", about: "id of the command"}}, body: Order{}, result: Recorded{}, answer: (*API).approve},
	{method: http.MethodPost, path: "/commands/{id}/reject", id: "rejectCommand", summary: "Reject a proposed command", right: access.Approve,
		parameters: []parameter{{name: "id", about: "id of the command"}}, body: Order{}, result: Recorded{}, answer: (*API).reject},
	{method: http.MethodPost, path: "/control/stop", id: "stop", summary: "Stop the services from acting, until resume", right: access.Control,
		body: Order{}, result: Recorded{}, answer: (*API).stop},
	{method: http.MethodPost, path: "/control/resume", id: "resume", summary: "Let the services act again", right: access.Control,
		body: Order{}, result: Recorded{}, answer: (*API).resume},
}
