package lifecycle

import (
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	karpv1 "millwright/api/karpenter/v1"
	awsv1 "millwright/api/karpenteraws/v1"
	"millwright/services/internal/service"
)

// A mutating webhook takes off again what is written, and the API server says that all went well: what is
// missing is not written, nor EC2 asked, as fast as they answer.
func TestAWebhookThatTakesOffWhatIsWrittenMakesNoStorm(t *testing.T) {
	drop := func(keys ...string) func(metav1.Object) {
		return func(o metav1.Object) {
			gone := func(key, _ string) bool { return slices.Contains(keys, key) }
			maps.DeleteFunc(o.GetLabels(), gone)
			maps.DeleteFunc(o.GetAnnotations(), gone)
		}
	}
	cases := map[string]func(metav1.Object){
		"annotations of a NodeClaim's tags": drop(awsv1.TaggedAnnotationKey, awsv1.ClusterNameTaggedAnnotationKey),
		"labels of its instance":            drop(corev1.LabelTopologyZone, corev1.LabelInstanceTypeStable),
		"the label of its NodeClass":        drop(awsv1.LabelEC2NodeClass),
		"the record that planned it":        drop(karpv1.RecordAnnotationKey),
		"the label of initialized nodes":    drop(karpv1.NodeInitializedLabelKey),
		"the label of registered nodes":     drop(karpv1.NodeRegisteredLabelKey),
		"finalizers of Nodes": func(o metav1.Object) {
			if _, ok := o.(*corev1.Node); ok {
				o.SetFinalizers(nil)
			}
		},
		"finalizers": func(o metav1.Object) { o.SetFinalizers(nil) },
		"the absence of the taint of unregistered nodes": func(o metav1.Object) {
			if n, ok := o.(*corev1.Node); ok && !slices.ContainsFunc(n.Spec.Taints, func(t corev1.Taint) bool { return t.Key == karpv1.UnregisteredTaintKey }) {
				n.Spec.Taints = append(n.Spec.Taints, karpv1.UnregisteredTaint())
			}
		},
	}
	for name, admits := range cases {
		t.Run(name, func(t *testing.T) {
			r := newRig(t)
			r.kube.admits = admits
			r.plan()
			r.wait(20 * time.Second)
			r.atMost(12)
			r.kube.admits = nil
			r.wait(2 * time.Minute)
			for _, c := range r.kube.claims {
				if len(c.Finalizers) == 0 || c.Labels[corev1.LabelTopologyZone] == "" || c.Annotations[awsv1.TaggedAnnotationKey] == "" {
					t.Errorf("two minutes after the webhook is gone the NodeClaim has labels %v, annotations %v and finalizers %v", c.Labels, c.Annotations, c.Finalizers)
				}
			}
		})
	}
}

// atMost demands that nothing is written more often in a minute, and EC2 is asked about no instance more
// often.
func (r *rig) atMost(most int) {
	r.t.Helper()
	r.trail, r.ec2.described = nil, 0
	r.wait(time.Minute)
	writes := map[string]int{}
	for _, act := range r.trail {
		writes[act]++
	}
	writes["describe instances"] = r.ec2.described
	for act, n := range writes {
		if n > most {
			r.t.Errorf("%s: %d times in a minute", act, n)
		}
	}
}

// The same of a claim that is deleted. Nodes without a claim are looked at once a second.
func TestAWebhookThatPutsBackWhatIsTakenOffMakesNoStorm(t *testing.T) {
	cases := map[string]func(metav1.Object){
		"the time of its termination": func(o metav1.Object) { delete(o.GetAnnotations(), karpv1.TerminationTimestampAnnotationKey) },
		"its finalizer": func(o metav1.Object) {
			if _, ok := o.(*karpv1.NodeClaim); ok {
				o.SetFinalizers([]string{karpv1.TerminationFinalizer})
			}
		},
		"the finalizer of its node": func(o metav1.Object) {
			if _, ok := o.(*corev1.Node); ok {
				o.SetFinalizers([]string{karpv1.TerminationFinalizer})
			}
		},
	}
	for name, admits := range cases {
		t.Run(name, func(t *testing.T) {
			r := newRig(t)
			name := r.readyClaims(1)[0]
			r.kube.claims[name].Spec.TerminationGracePeriod = &metav1.Duration{Duration: time.Hour}
			r.kube.admits = admits
			r.kube.deleteClaim(name)
			r.wait(20 * time.Second)
			r.atMost(60)
			r.kube.admits = nil
			r.run("all gone", func() bool { return len(r.kube.claims)+len(r.kube.nodes) == 0 })
		})
	}
}

// A NodeClaim that a webhook makes without annotations is known again all the same, if they may be added;
// else it is said of the NodePool why there are no nodes.
func TestAWebhookThatTakesAnnotationsOffWhatIsMade(t *testing.T) {
	for name, always := range map[string]bool{"when it is made": false, "always": true} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t)
			r.kube.admits = func(o metav1.Object) {
				if always || o.GetUID() == "" {
					o.SetAnnotations(nil)
				}
			}
			claim := r.plan()
			r.wait(30 * time.Second)
			told := slices.ContainsFunc(r.events, func(e service.KubeEvent) bool {
				return e.Object.Kind == "NodePool" && e.Reason == "NodeClaimRefused" && strings.Contains(e.Message, karpv1.RecordAnnotationKey)
			})
			if ready := r.ready(claim)(); ready == always || told != always {
				t.Errorf("ready: %t, told: %t; log %v, events %v", ready, told, r.kinds(), r.events)
			}
		})
	}
}
