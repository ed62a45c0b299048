package nodepool

import (
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	karpv1 "millwright/api/karpenter/v1"
	awsv1 "millwright/api/karpenteraws/v1"
)

func TestValidate(t *testing.T) {
	require := func(r ...karpv1.NodeSelectorRequirementWithMinValues) func(*karpv1.NodePool) {
		return func(p *karpv1.NodePool) { p.Spec.Template.Spec.Requirements = r }
	}
	text := func(s string) *string { return &s }
	budget := func(nodes, schedule string, d time.Duration) karpv1.Budget {
		return karpv1.Budget{Nodes: nodes, Schedule: &schedule, Duration: &metav1.Duration{Duration: d}}
	}
	cases := map[string]struct {
		change func(*karpv1.NodePool)
		want   []string
	}{
		"an empty pool is valid": {change: func(*karpv1.NodePool) {}},
		"the pool's own label may not be set": {
			change: func(p *karpv1.NodePool) { p.Spec.Template.Labels = map[string]string{"karpenter.sh/nodepool": "x"} },
			want:   []string{`invalid key name "karpenter.sh/nodepool" in labels, restricted`}},
		"label values have a form": {
			change: func(p *karpv1.NodePool) { p.Spec.Template.Labels = map[string]string{"a": "no/slash"} },
			want:   []string{"invalid value: no/slash for label[a]"}},
		"a taint pair occurs once over both lists": {
			change: func(p *karpv1.NodePool) {
				p.Spec.Template.Spec.Taints = []corev1.Taint{{Key: "a", Effect: "NoSchedule"}}
				p.Spec.Template.Spec.StartupTaints = []corev1.Taint{{Key: "a", Value: "v", Effect: "NoSchedule"}}
			}, want: []string{"duplicate taint Key/Effect pair a=NoSchedule"}},
		"effects are known": {
			change: func(p *karpv1.NodePool) { p.Spec.Template.Spec.Taints = []corev1.Taint{{Key: "a", Effect: "Never"}} },
			want:   []string{"invalid value: Never in taints, unknown effect"}},
		"all errors are named": {
			change: require(karpv1.NodeSelectorRequirementWithMinValues{Key: "karpenter.sh/nodepool", Operator: "Exists"},
				karpv1.NodeSelectorRequirementWithMinValues{Key: "kubernetes.io/hostname", Operator: "Exists"},
				karpv1.NodeSelectorRequirementWithMinValues{Key: "a", Operator: "In"}),
			want: []string{`invalid key: "karpenter.sh/nodepool" in requirements, restricted`, "kubernetes.io/hostname", "key a with operator In must have a value defined"}},
		"requirements may not contradict each other, also under an alias": {
			change: require(karpv1.NodeSelectorRequirementWithMinValues{Key: "kubernetes.io/arch", Operator: "In", Values: []string{"amd64"}},
				karpv1.NodeSelectorRequirementWithMinValues{Key: "beta.kubernetes.io/arch", Operator: "In", Values: []string{"arm64"}}),
			want: []string{"requirements on key kubernetes.io/arch contradict each other"}},
		"a label that is to be absent twice over is no contradiction": {
			change: require(karpv1.NodeSelectorRequirementWithMinValues{Key: "team", Operator: "NotIn", Values: []string{"a"}},
				karpv1.NodeSelectorRequirementWithMinValues{Key: "team", Operator: "DoesNotExist"},
				karpv1.NodeSelectorRequirementWithMinValues{Key: "team", Operator: "DoesNotExist"})},
		"a label that is to be absent and to be there is one": {
			change: require(karpv1.NodeSelectorRequirementWithMinValues{Key: "team", Operator: "NotIn", Values: []string{"a"}},
				karpv1.NodeSelectorRequirementWithMinValues{Key: "team", Operator: "DoesNotExist"},
				karpv1.NodeSelectorRequirementWithMinValues{Key: "team", Operator: "In", Values: []string{"b"}}),
			want: []string{"requirements on key team contradict each other"}},
		"an unreadable schedule names its budget": {
			change: func(p *karpv1.NodePool) {
				p.Spec.Disruption.Budgets = []karpv1.Budget{budget("1", "0 9 * * 1-5", time.Hour), budget("1", "a b c d e", time.Hour)}
			}, want: []string{`invalid value: disruption.budgets[1].schedule: parse schedule "a b c d e"`}},
		"a schedule in a time zone, which the planner would not take": {
			change: func(p *karpv1.NodePool) {
				p.Spec.Disruption.Budgets = []karpv1.Budget{budget("1", "CRON_TZ=Asia/Tokyo 0 9 * * 1-5", time.Hour)}
			}, want: []string{"disruption.budgets[0].schedule", "not a cron expression in UTC"}},
		"a schedule of a day that never comes": {
			change: func(p *karpv1.NodePool) {
				p.Spec.Disruption.Budgets = []karpv1.Budget{budget("1", "0 0 31 2 *", time.Hour)}
			}, want: []string{"disruption.budgets[0].schedule", "no time that ever comes"}},
		"a window of no length": {
			change: func(p *karpv1.NodePool) {
				p.Spec.Disruption.Budgets = []karpv1.Budget{budget("1", "@daily", 0)}
			}, want: []string{"disruption.budgets[0].duration: must be more than 0"}},
		"more nodes than can be counted": {
			change: func(p *karpv1.NodePool) {
				p.Spec.Disruption.Budgets = []karpv1.Budget{{Nodes: "10%"}, {Nodes: "99999999999999999999"}}
			}, want: []string{"disruption.budgets[1].nodes"}},
		"a schedule without a duration": {
			change: func(p *karpv1.NodePool) {
				p.Spec.Disruption.Budgets = []karpv1.Budget{{Nodes: "1", Schedule: text("@daily")}}
			}, want: []string{"'schedule' must be set with 'duration'"}},
		"budgets that can be read": {
			change: func(p *karpv1.NodePool) {
				p.Spec.Disruption.Budgets = []karpv1.Budget{{Nodes: "0"}, {Nodes: "100%"}, budget("5", "@daily", time.Minute), {Nodes: "1", Reasons: []karpv1.DisruptionReason{}}}
			}},
		"a label against a requirement": {
			change: func(p *karpv1.NodePool) {
				p.Spec.Template.Labels = map[string]string{"team": "a", "free": "yes"}
				p.Spec.Template.Spec.Requirements = []karpv1.NodeSelectorRequirementWithMinValues{{Key: "team", Operator: "In", Values: []string{"b", "c"}}}
			}, want: []string{"invalid value: a for label[team] in labels, contradicts requirements on key team"}},
		"a label that a requirement has": {
			change: func(p *karpv1.NodePool) {
				p.Spec.Template.Labels = map[string]string{"team": "a"}
				p.Spec.Template.Spec.Requirements = []karpv1.NodeSelectorRequirementWithMinValues{{Key: "team", Operator: "Exists"}}
			}},
		"a name that is no label value, as NodeClaims and nodes bear it": {
			change: func(p *karpv1.NodePool) { p.Name = strings.Repeat("p", 64) },
			want:   []string{"for label[karpenter.sh/nodepool], must be no more than 63"}},
		"so is the name of its NodeClass": {
			change: func(p *karpv1.NodePool) { p.Spec.Template.Spec.NodeClassRef.Name = strings.Repeat("c", 64) },
			want:   []string{"for label[karpenter.k8s.aws/ec2nodeclass], must be no more than 63"}},
		"names of 63 characters, with dots": {
			change: func(p *karpv1.NodePool) {
				p.Name, p.Spec.Template.Spec.NodeClassRef.Name = strings.Repeat("p", 61)+".a", strings.Repeat("c", 63)
			}},
		"claims that expire at once": {
			change: func(p *karpv1.NodePool) {
				p.Spec.Template.Spec.ExpireAfter = karpv1.NillableDuration{Duration: new(time.Duration), Raw: "0m"}
			},
			want: []string{"invalid value: expireAfter must be more than 0, or Never, got 0m"}},
		"claims that never expire": {
			change: func(p *karpv1.NodePool) {
				p.Spec.Template.Spec.ExpireAfter = karpv1.NillableDuration{Raw: karpv1.Never}
			}},
		"annotations have names": {
			change: func(p *karpv1.NodePool) {
				p.Spec.Template.Annotations = map[string]string{"example.com/fine": "a/b c", "Example.com/also": "", "not a name": ""}
			},
			want: []string{`invalid key name "not a name" in annotations, name part must consist of`}},
		"annotations have a size": {
			change: func(p *karpv1.NodePool) {
				p.Spec.Template.Annotations = map[string]string{"a": strings.Repeat("x", 256<<10)}
			},
			want: []string{"annotations size 262145 is larger than limit"}},
		"a taint's value is that of a node": {
			change: func(p *karpv1.NodePool) {
				p.Spec.Template.Spec.StartupTaints = []corev1.Taint{{Key: "a", Value: "example.com/b", Effect: "NoSchedule"}}
			},
			want: []string{"invalid value: example.com/b in startupTaints, a valid label must be"}},
		"a spec that cannot be read": {
			change: func(p *karpv1.NodePool) { p.Unreadable = "spec.limits.cpu: odd" },
			want:   []string{"spec.limits.cpu: odd"}},
		"a static pool is valid": {change: func(p *karpv1.NodePool) { p.Spec.Replicas = new(int64) }},
		"the label of the NodeClass passes the CRD but not here": {
			change: require(karpv1.NodeSelectorRequirementWithMinValues{Key: "karpenter.k8s.aws/ec2nodeclass", Operator: "Exists"}),
			want:   []string{"karpenter.k8s.aws/ec2nodeclass"}},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			p := poolNamed("p", "u")
			c.change(p)
			err := Validate(p)
			if (err == nil) != (len(c.want) == 0) {
				t.Fatalf("error = %v", err)
			}
			for _, w := range c.want {
				if !strings.Contains(err.Error(), w) {
					t.Errorf("error %q does not say %q", err, w)
				}
			}
		})
	}
}

func poolNamed(name, uid string) *karpv1.NodePool {
	p := &karpv1.NodePool{ObjectMeta: metav1.ObjectMeta{Name: name, Generation: 1}}
	p.UID = types.UID(uid)
	p.Spec.Template.Spec.NodeClassRef = &karpv1.NodeClassReference{Group: awsv1.Group, Kind: "EC2NodeClass", Name: "default"}
	return p
}
