package apitest_test

import "slices"

// disruptionPolicies are cases of DisruptionPolicy.
func disruptionPolicies() []verdict {
	return slices.Concat([]verdict{
		accepts("nothing", ""),
		accepts("a selector", "nodePoolSelector: {matchLabels: {a: b}, matchExpressions: [{key: c, operator: Exists}]}"),
		accepts("an age", "minNodeAge: 30m"),
		refuses("a negative age", "minNodeAge: -1s", "must not be negative"),
		accepts("pods whose events are ignored", "ignorePodEvents: {matchLabels: {app: report}, matchExpressions: [{key: batch, operator: Exists}]}"),
		refuses("pods by an expression without an operator", "ignorePodEvents: {matchExpressions: [{key: batch}]}", "Required value"),
		accepts("no evictions", "maxEvictionsPerHour: 0"),
		refuses("negative evictions", "maxEvictionsPerHour: -1", "should be greater than or equal to 0"),
		accepts("a ban of destinations", "destination: Ban"),
		refuses("another destination", "destination: Nowhere", `supported values: "Cost", "Ban"`),
		accepts("all savings", "savings: {minPerHour: '0.05', minPercent: 10, minPerEviction: '0.001', payBack: {costPerEviction: '0.01', horizon: 12h}}"),
		refuses("over 100 percent", "savings: {minPercent: 101}", "should be less than or equal to 100"),
		refuses("a pay-back without a cost", "savings: {payBack: {horizon: 12h}}", "Required value"),
		refuses("a horizon of nothing", "savings: {payBack: {costPerEviction: '1', horizon: 0s}}", "must be positive"),
		accepts("a saving at spot prices", "savings: {spot: {minPercent: 5, for: 30m}}"),
		refuses("a saving of nothing at spot prices", "savings: {spot: {minPercent: 0, for: 30m}}", "should be greater than or equal to 1"),
		refuses("a saving at spot prices of a moment", "savings: {spot: {minPercent: 5, for: 30s}}", "must be between one minute and 24 hours"),
		refuses("a saving at spot prices of days", "savings: {spot: {minPercent: 5, for: 25h}}", "must be between one minute and 24 hours"),
		refuses("a saving at spot prices of no time", "savings: {spot: {minPercent: 5}}", "Required value"),
		accepts("waves", "waves: {}"),
		accepts("waves of a few nodes", "waves: {initial: 5}"),
		refuses("a wave of no nodes", "waves: {initial: 0}", "should be greater than or equal to 1"),
		refuses("a first wave of everything", "waves: {initial: 100000}", "should be less than or equal to 1000"),
		accepts("a window", "windows: [{action: Allow, schedule: '0 2 * * *', duration: 2h, timeZone: Europe/Berlin, reasons: [Empty]}]"),
		refuses("a short window", "windows: [{action: Deny, schedule: '@daily', duration: 30s}]", "must be at least one minute"),
		refuses("a window of no kind", "windows: [{action: allow, schedule: '@daily', duration: 1h}]", `supported values: "Allow", "Deny"`),
		refuses("an unknown reason", "windows: [{action: Deny, schedule: '@daily', duration: 1h, reasons: [Expired]}]", `supported values: "Underutilized", "Empty", "Drifted"`),
		refuses("a window without a schedule", "windows: [{action: Deny, duration: 1h}]", "Required value"),
		accepts("approval of all", "approval: {}"),
		accepts("approval of drift", "approval: {reasons: [Drifted], expireAfter: 12h}"),
		refuses("approval that ends at once", "approval: {expireAfter: 0s}", "must be at least one minute"),
		accepts("a pause", "pause: {until: '2026-12-01T00:00:00Z', reason: release}"),
		refuses("a pause without an end", "pause: {reason: release}", "Required value"),
	},
		each("amount", "savings: {minPerHour: '%s'}", "", "0", "1", "0.000001", "999999999.999999"),
		each("amount", "savings: {minPerHour: '%s'}", `should match '^\d{1,9}(\.\d{1,6})?$'`, "-1", "+1", "1e3", ".5", "0.0000001", "5%", "much"),
	)
}
