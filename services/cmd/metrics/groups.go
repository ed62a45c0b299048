package main

import (
	"slices"

	"github.com/prometheus/client_golang/prometheus"

	"millwright/services/certificates"
	"millwright/services/console"
	"millwright/services/disruptor"
	"millwright/services/durability"
	"millwright/services/export"
	"millwright/services/internal/clock"
	"millwright/services/internal/ec2"
	"millwright/services/internal/host/fold"
	"millwright/services/internal/host/step"
	"millwright/services/internal/kube"
	"millwright/services/internal/lease"
	"millwright/services/internal/process"
	"millwright/services/internal/retention"
	"millwright/services/internal/selfcheck"
	"millwright/services/internal/service"
	"millwright/services/lifecycle/claims"
	"millwright/services/lifecycle/garbage"
	"millwright/services/lifecycle/launch"
	"millwright/services/provisioner"
	"millwright/services/terminator"
	"millwright/services/watcher"
	ec2watcher "millwright/services/watcher/ec2"
	"millwright/services/watcher/queue"
	"millwright/services/webhook"
)

// deciding stands for the services that lead and decide, in names of metrics that each of them has.
const deciding = "SERVICE"

// group is a section of the page.
type group struct {
	title, text string
	metrics     []metric
}

// sources are the sections with what registers their metrics.
var sources = []struct {
	title, text string
	register    []func(prometheus.Registerer)
}{
	{"Every process", "", []func(prometheus.Registerer){process.RegisterMetrics, registerClock, fold.RegisterMetrics, lease.RegisterMetrics}},
	{"Every deciding service", "SERVICE is `provisioner`, `disruptor`, `terminator` or `lifecycle`.", []func(prometheus.Registerer){
		of(step.RegisterMetrics), of(process.RegisterServiceMetrics)}},
	{"Watcher", "", []func(prometheus.Registerer){watcher.RegisterMetrics, ec2watcher.RegisterMetrics}},
	{"Interruption queue", "The watcher that leads has them, if `--interruption-queue` is set.", []func(prometheus.Registerer){queue.RegisterMetrics}},
	{"Provisioner", "Series per node and per NodePool come from the World when it is scraped, and only from the leader.", []func(prometheus.Registerer){
		provisioner.RegisterMetrics}},
	{"Pods", "Only with `--pod-metrics`: series for each pod, or each that waits, from the provisioner that leads.", []func(prometheus.Registerer){
		provisioner.RegisterPodMetrics}},
	{"Disruptor", "", []func(prometheus.Registerer){disruptor.RegisterMetrics}},
	{"Terminator", "", []func(prometheus.Registerer){terminator.RegisterMetrics}},
	{"Lifecycle", "`karpenter_nodeclaims_disrupted_total` and `karpenter_pods_disruption_initiated_total` count commands of the disruptor too, `millwright_lifecycle_alarms_total` what the terminator paces.", []func(prometheus.Registerer){
		claims.RegisterMetrics, service.RegisterMetrics, garbage.RegisterMetrics, launch.RegisterMetrics, ec2.RegisterMetrics, retention.RegisterMetrics,
		selfcheck.RegisterMetrics, durability.RegisterMetrics}},
	{"Console", "`millwright console` and `millwright all` have them.", []func(prometheus.Registerer){console.RegisterMetrics}},
	{"Export", "`millwright export` has them, and `millwright all` with a sink. A sink is `cloudevents`, `webhook` or `traces`.", []func(prometheus.Registerer){export.RegisterMetrics}},
	{"Certificates", "`millwright certificates` has them.", []func(prometheus.Registerer){certificates.RegisterMetrics}},
	{"Webhook", "`millwright webhook` has them.", []func(prometheus.Registerer){webhook.RegisterMetrics}},
	{"Names of libraries", "What Karpenter has from the libraries it is made of, under the same names. A process has those about what it does.", []func(prometheus.Registerer){
		ec2.RegisterSDKMetrics, kube.RegisterMetrics, process.RegisterLibraryMetrics, step.RegisterLibraryMetrics}},
}

// registerClock registers the metrics of a clock that nothing has been compared with.
func registerClock(r prometheus.Registerer) { clock.Register(r, clock.New(clock.Config{})) }

// of registers the metrics that each deciding service has, once for all of them.
func of(register func(prometheus.Registerer, string)) func(prometheus.Registerer) {
	return func(r prometheus.Registerer) { register(r, deciding) }
}

// groups are all metrics by section; one that two sections register is in the last of them.
func groups() []group {
	seen, list := map[string]bool{}, make([]group, len(sources))
	for i, s := range slices.Backward(sources) {
		r := &recorder{}
		for _, register := range s.register {
			register(r)
		}
		list[i] = group{title: s.title, text: s.text}
		for _, m := range r.sorted() {
			if !seen[m.name] {
				list[i].metrics = append(list[i].metrics, m)
			}
			seen[m.name] = true
		}
	}
	return list
}
