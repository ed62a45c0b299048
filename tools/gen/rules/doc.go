// Package rules holds the tests of deploy/alerts and deploy/dashboards: the rules' unit tests, in the format
// of `promtool test rules`, run on Prometheus' own rule manager and engine; every query parses; every metric
// that a query names is in docs/metrics.md; every alert has a severity, texts and a runbook. It is a module
// of its own, so that Millwright does not depend on Prometheus. (promtool itself cannot be linked: it needs
// the client of every service discovery.)
//
// Command observe is Prometheus beside an end-to-end test, which asks every query of the dashboards. Command
// scrape is its scraper alone, with any configuration.
//
// A test of deploy/alerts/tests is also one for promtool: promtool test rules deploy/alerts/tests/*.yaml
package rules
