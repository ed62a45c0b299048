package provisioner

import (
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	karpv1 "millwright/api/karpenter/v1"
	awsv1 "millwright/api/karpenteraws/v1"
	"millwright/planner"
	"millwright/planner/world"
	"millwright/services/internal/service"
)

// observeEvery bounds how often conditions are compared with what they were.
const observeEvery = time.Second

// transitionBuckets of the durations of conditions, in seconds: 0.5 to 8192 (reference: operations §2.6).
var transitionBuckets = prometheus.ExponentialBuckets(.5, 2, 15)

// conditionMetrics tell of the status conditions of NodePools, NodeClaims, EC2NodeClasses and nodes, from the
// World when it is scraped. Of NodeClaims and nodes those conditions that are as they are to be have one
// series for all objects alike, without a name, whose value is their number: at 5,000 nodes each would be a
// series otherwise. Transitions are counted while the service leads, by comparing twice a second at most;
// what was there when it began to lead does not count.
type conditionMetrics struct {
	cluster *clusterMetrics
	// each has a series for each condition of each object.
	each  bool
	kinds []*conditionKind

	count, current *prometheus.Desc
	transitions    *prometheus.CounterVec
	durations      *prometheus.HistogramVec

	mu       sync.Mutex
	observed time.Time
}

// conditionKind is a kind of objects.
type conditionKind struct {
	group, kind string
	// many: there is one for each node.
	many bool
	list func(*world.World) []conditioned

	count, current, terminating *prometheus.Desc
	transitions                 *prometheus.CounterVec
	durations, terminated       *prometheus.HistogramVec
	seen                        map[string]*conditionSeen
	// known are the types of conditions that have counters of their own in any case.
	known  []string
	labels counterLabels
}

// conditioned is an object with conditions.
type conditioned struct {
	// object tells versions apart: another one is another pointer.
	object     any
	meta       *metav1.ObjectMeta
	labels     []string
	conditions func() []metav1.Condition
}

// conditionSeen is an object as it was seen last.
type conditionSeen struct {
	object     any
	uid        types.UID
	deletedAt  *metav1.Time
	labels     []string
	conditions []metav1.Condition
	pass       time.Time
}

func newConditionMetrics(r prometheus.Registerer, cluster *clusterMetrics, each bool) *conditionMetrics {
	f := promauto.With(r)
	const generic = "operator_status_condition_"
	m := &conditionMetrics{
		cluster: cluster, each: each,
		count: prometheus.NewDesc(generic+"count", "As the metrics of each kind, for all but nodes.",
			[]string{"namespace", "name", "group", "kind", "type", "status", "reason"}, nil),
		current: prometheus.NewDesc(generic+"current_status_seconds", "As the metrics of each kind, for all but nodes.",
			[]string{"namespace", "name", "group", "kind", "type", "status", "reason"}, nil),
		transitions: f.NewCounterVec(prometheus.CounterOpts{Name: generic + "transitions_total", Help: "As the metrics of each kind, for all but nodes."},
			[]string{"group", "kind", "type", "status", "reason"}),
		durations: f.NewHistogramVec(prometheus.HistogramOpts{Name: generic + "transition_seconds", Help: "As the metrics of each kind, for all but nodes.",
			Buckets: transitionBuckets}, []string{"group", "kind", "type", "status"}),
	}
	pooled := []string{"karpenter_sh_nodepool", "karpenter_k8s_aws_ec2nodeclass"}
	m.kinds = []*conditionKind{
		newConditionKind(f, conditionKind{group: karpv1.Group, kind: "NodePool", list: nodePoolConditions}, transitionBuckets),
		newConditionKind(f, conditionKind{group: karpv1.Group, kind: "NodeClaim", many: true, list: nodeClaimConditions}, transitionBuckets, pooled...),
		newConditionKind(f, conditionKind{group: awsv1.Group, kind: "EC2NodeClass", list: nodeClassConditions}, prometheus.DefBuckets),
		newConditionKind(f, conditionKind{kind: "Node", many: true, list: nodeConditions, known: knownNodeConditions}, transitionBuckets, append(pooled, "karpenter_sh_initialized")...),
	}
	return m
}

func newConditionKind(f promauto.Factory, k conditionKind, buckets []float64, labels ...string) *conditionKind {
	prefix := "operator_" + strings.ToLower(k.kind) + "_"
	with := func(names ...string) []string { return append(names, labels...) }
	k.count = prometheus.NewDesc(prefix+"status_condition_count",
		"1 for a condition of an object"+k.together("; without a name, the number of objects whose condition is as it is to be")+".",
		with("namespace", "name", "type", "status", "reason"), nil)
	k.current = prometheus.NewDesc(prefix+"status_condition_current_status_seconds", "How long a condition has had its status"+k.together("; of those with a name")+".",
		with("namespace", "name", "type", "status", "reason"), nil)
	k.terminating = prometheus.NewDesc(prefix+"termination_current_time_seconds", "How long an object has been being deleted.", with("namespace", "name"), nil)
	k.transitions = f.NewCounterVec(prometheus.CounterOpts{Name: prefix + "status_condition_transitions_total",
		Help: "Changes of the status of conditions, to this one."}, with("type", "status", "reason"))
	k.durations = f.NewHistogramVec(prometheus.HistogramOpts{Name: prefix + "status_condition_transition_seconds",
		Help: "How long conditions had this status when they got another.", Buckets: buckets}, with("type", "status"))
	k.terminated = f.NewHistogramVec(prometheus.HistogramOpts{Name: prefix + "termination_duration_seconds",
		Help: "From the deletion of an object until it was gone.", Buckets: buckets}, with())
	k.seen, k.labels = map[string]*conditionSeen{}, newCounterLabels(k.known)
	return &k
}

// together is what is said of kinds of which there are many.
func (k *conditionKind) together(text string) string {
	if k.many {
		return text
	}
	return ""
}

// Describe implements prometheus.Collector; counters and histograms are registered by themselves.
func (m *conditionMetrics) Describe(ch chan<- *prometheus.Desc) {
	ch <- m.count
	ch <- m.current
	for _, k := range m.kinds {
		ch <- k.count
		ch <- k.current
		ch <- k.terminating
	}
}

// Collect implements prometheus.Collector.
func (m *conditionMetrics) Collect(ch chan<- prometheus.Metric) {
	if !m.cluster.leads() {
		return
	}
	var list []prometheus.Metric // sent after the Snapshot: ch may block
	_ = m.cluster.host.Snapshot(service.ForEffects, func(s *planner.Snapshot) error {
		for _, k := range m.kinds {
			list = append(list, m.series(k, s)...)
		}
		return nil
	})
	send(ch, list...)
}

// series of the objects of a kind.
func (m *conditionMetrics) series(k *conditionKind, s *planner.Snapshot) (list []prometheus.Metric) {
	alike, labels := map[string]float64{}, map[string][]string{}
	for _, o := range k.list(s.World) {
		if o.meta.DeletionTimestamp != nil {
			list = append(list, gauge(k.terminating, s.Now.Sub(o.meta.DeletionTimestamp.Time).Seconds(), append([]string{"", o.meta.Name}, o.labels...)...))
		}
		for _, c := range o.conditions() {
			values := []string{"", o.meta.Name, c.Type, string(c.Status), c.Reason}
			if k.many && !m.each && isAsItIsToBe(c) {
				values[1] = ""
				values = append(values, o.labels...)
				key := strings.Join(values, "\x00")
				alike[key]++
				labels[key] = values
				continue
			}
			age := s.Now.Sub(c.LastTransitionTime.Time).Seconds()
			list = append(list, gauge(k.count, 1, append(values, o.labels...)...), gauge(k.current, age, append(values, o.labels...)...))
			if k.group != "" {
				generic := []string{"", o.meta.Name, k.group, k.kind, c.Type, string(c.Status), c.Reason}
				list = append(list, gauge(m.count, 1, generic...), gauge(m.current, age, generic...))
			}
		}
	}
	sums := map[string]float64{}
	for key, n := range alike {
		list = append(list, gauge(k.count, n, labels[key]...))
		sums[strings.Join(labels[key][2:5], "\x00")] += n
	}
	if k.group != "" {
		for key, n := range sums {
			list = append(list, gauge(m.count, n, append([]string{"", "", k.group, k.kind}, strings.Split(key, "\x00")...)...))
		}
	}
	return list
}

// isAsItIsToBe reports that a condition says nothing that somebody should look at.
func isAsItIsToBe(c metav1.Condition) bool {
	switch c.Type {
	case karpv1.ConditionTypeConsolidatable: // either is
		return true
	case karpv1.ConditionTypeLaunched, karpv1.ConditionTypeRegistered, karpv1.ConditionTypeInitialized, karpv1.ConditionTypeConsistentStateFound,
		karpv1.ConditionTypeDrained, karpv1.ConditionTypeVolumesDetached:
		return c.Status == metav1.ConditionTrue
	}
	if strings.HasSuffix(c.Type, karpv1.ConditionTypeReady) { // Ready, and those of node monitoring agents: NetworkingReady
		return c.Status == metav1.ConditionTrue
	}
	return c.Status == metav1.ConditionFalse
}

// observe counts what has changed since the last time.
func (m *conditionMetrics) observe(now time.Time) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if now.Sub(m.observed).Abs() < observeEvery {
		return
	}
	_ = m.cluster.host.Snapshot(service.ForEffects, func(s *planner.Snapshot) error {
		first := now.Sub(m.observed).Abs() > leadingFor // somebody else has counted meanwhile
		m.observed = now
		for _, k := range m.kinds {
			m.compare(k, s.World, now, first)
		}
		return nil
	})
}

// compare the objects of a kind with what they were; the first time nothing counts.
func (m *conditionMetrics) compare(k *conditionKind, w *world.World, now time.Time, first bool) {
	for _, o := range k.list(w) {
		before := k.seen[o.meta.Name]
		switch {
		case before != nil && before.uid != o.meta.UID:
			k.gone(before, now, first)
			before = nil
		case before != nil && before.object == o.object:
			before.pass = now
			continue
		}
		after := &conditionSeen{object: o.object, uid: o.meta.UID, deletedAt: o.meta.DeletionTimestamp, labels: o.labels, conditions: o.conditions(), pass: now}
		k.seen[o.meta.Name] = after
		if !first {
			m.changed(k, before, after)
		}
	}
	for name, before := range k.seen {
		if before.pass != now {
			k.gone(before, now, first)
			delete(k.seen, name)
		}
	}
}

func (k *conditionKind) gone(o *conditionSeen, now time.Time, first bool) {
	if o.deletedAt != nil && !first {
		k.terminated.WithLabelValues(k.labels.ofObject(o.labels)...).Observe(max(now.Sub(o.deletedAt.Time).Seconds(), 0))
	}
}

// changed counts the conditions whose status is another; before is nil for a new object.
func (m *conditionMetrics) changed(k *conditionKind, before, after *conditionSeen) {
	var old []metav1.Condition
	if before != nil {
		old = before.conditions
	}
	object := k.labels.ofObject(after.labels)
	for _, c := range after.conditions {
		i := slices.IndexFunc(old, func(b metav1.Condition) bool { return b.Type == c.Type })
		if i >= 0 && old[i].Status == c.Status {
			continue
		}
		kind, status := k.labels.ofType(c.Type), ofStatus(c.Status)
		reason := k.labels.ofReason(kind, c.Reason)
		k.transitions.WithLabelValues(append([]string{kind, status, reason}, object...)...).Inc()
		if k.group != "" {
			m.transitions.WithLabelValues(k.group, k.kind, kind, status, reason).Inc()
		}
		if i < 0 {
			continue
		}
		was, lasted := ofStatus(old[i].Status), max(c.LastTransitionTime.Sub(old[i].LastTransitionTime.Time).Seconds(), 0)
		k.durations.WithLabelValues(append([]string{kind, was}, object...)...).Observe(lasted)
		if k.group != "" {
			m.durations.WithLabelValues(k.group, k.kind, kind, was).Observe(lasted)
		}
	}
}

func nodePoolConditions(w *world.World) (list []conditioned) {
	for _, p := range w.NodePools() {
		list = append(list, conditioned{object: p, meta: &p.ObjectMeta, conditions: func() []metav1.Condition { return p.Status.Conditions }})
	}
	return list
}

func nodeClaimConditions(w *world.World) (list []conditioned) {
	for _, c := range w.NodeClaims() {
		class := c.Labels[awsv1.LabelEC2NodeClass]
		if class == "" && c.Spec.NodeClassRef != nil {
			class = c.Spec.NodeClassRef.Name
		}
		list = append(list, conditioned{object: c, meta: &c.ObjectMeta, labels: []string{c.Labels[karpv1.NodePoolLabelKey], class},
			conditions: func() []metav1.Condition { return c.Status.Conditions }})
	}
	return list
}

func nodeClassConditions(w *world.World) (list []conditioned) {
	for _, c := range w.NodeClasses() {
		list = append(list, conditioned{object: c, meta: &c.ObjectMeta, conditions: func() []metav1.Condition { return c.Status.Conditions }})
	}
	return list
}

func nodeConditions(w *world.World) (list []conditioned) {
	for _, n := range w.Nodes() {
		l := n.Object.Labels
		list = append(list, conditioned{object: n.Object, meta: &n.Object.ObjectMeta,
			labels: []string{l[karpv1.NodePoolLabelKey], l[awsv1.LabelEC2NodeClass], l[karpv1.NodeInitializedLabelKey]},
			conditions: func() (list []metav1.Condition) {
				types := map[string]bool{}
				for _, c := range n.Object.Status.Conditions {
					if of := ofNode(c); !types[of.Type] { // nobody checks that a Node has a type once
						types[of.Type] = true
						list = append(list, of)
					}
				}
				return list
			}})
	}
	return list
}

func ofNode(c corev1.NodeCondition) metav1.Condition {
	return metav1.Condition{Type: validLabel(string(c.Type)), Status: metav1.ConditionStatus(validLabel(string(c.Status))), Reason: validLabel(c.Reason),
		LastTransitionTime: c.LastTransitionTime}
}
