// Package surge says which pods a Deployment can replace before they go, where a DisruptionPolicy asks for
// that (reference: disruption §4.1, Surge): the policy, the budgets that never let a pod be evicted, and
// what of an owner stands in the way. Package drain asks it by what the API server says of owners, package
// planner by what the World shows; the decision to surge is the drain's. All of it is pure; its rules are
// tested in packages drain and disrupt.
package surge

import (
	"fmt"
	"slices"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/intstr"

	"millwright/planner/ledger"
	"millwright/planner/world"
)

// withinDefault is how long a Deployment has if the policy says nothing.
const withinDefault = 10 * time.Minute

// Policy is the first DisruptionPolicy by name that wants pods of a NodePool surged, and the shortest
// time that any of them gives.
func Policy(w *world.World, nodePool string) (name string, within time.Duration) {
	pool := w.NodePool(nodePool)
	if pool == nil {
		return "", 0
	}
	for _, o := range w.DisruptionPolicies() {
		if o.Spec.Surge == nil || !selects(o.Spec.NodePoolSelector, pool.Labels) {
			continue
		}
		d := withinDefault
		if o.Spec.Surge.Within != nil {
			d = min(o.Spec.Surge.Within.Duration, ledger.SurgeWithinMax)
		}
		if name == "" {
			name, within = o.Name, d
		}
		within = min(within, d)
	}
	return name, within
}

// selects reports that a selector selects all, or these labels. One that can't be read selects nothing.
func selects(selector *metav1.LabelSelector, set map[string]string) bool {
	if selector == nil {
		return true
	}
	sel, err := metav1.LabelSelectorAsSelector(selector)
	return err == nil && sel.Matches(labels.Set(set))
}

// NeverAllows reports a budget that allows no disruption even if all its pods are healthy.
func NeverAllows(pdb *policyv1.PodDisruptionBudget) bool {
	if pdb.Status.DisruptionsAllowed > 0 {
		return false
	}
	return FullyBlocking(pdb) || pdb.Status.ExpectedPods > 0 && pdb.Status.DesiredHealthy >= pdb.Status.ExpectedPods
}

// FullyBlocking reports that a budget can never allow a disruption: maxUnavailable 0 or 0 %, minAvailable 100
// %.
func FullyBlocking(pdb *policyv1.PodDisruptionBudget) bool {
	if m := pdb.Spec.MaxUnavailable; m != nil {
		return m.Type == intstr.Int && m.IntVal == 0 || m.Type == intstr.String && m.StrVal == "0%"
	}
	m := pdb.Spec.MinAvailable
	return m != nil && m.Type == intstr.String && m.StrVal == "100%"
}

// VolumeForOneNode is a PersistentVolumeClaim of a pod that two nodes can't have at a time, or that nobody
// knows; "" if there is none. What is created for each pod is no hindrance.
func VolumeForOneNode(w *world.World, p *world.Pod) string {
	for _, v := range p.Class.Spec.Volumes {
		if v.PersistentVolumeClaim == nil {
			continue
		}
		name := v.PersistentVolumeClaim.ClaimName
		c := w.PersistentVolumeClaim(p.Namespace + "/" + name)
		shared := c != nil && slices.ContainsFunc(c.Spec.AccessModes, func(m corev1.PersistentVolumeAccessMode) bool {
			return m == corev1.ReadWriteMany || m == corev1.ReadOnlyMany
		})
		if !shared {
			return name
		}
	}
	return ""
}

// AddDeployment completes the facts of an owner by its Deployment, as the API server or the World has it.
func AddDeployment(f ledger.SurgeFacts, d *appsv1.Deployment) ledger.SurgeFacts {
	f.Deployment, f.DeploymentUID, f.Replicas, f.Paused = d.Namespace+"/"+d.Name, d.UID, 1, d.Spec.Paused
	if d.Spec.Replicas != nil {
		f.Replicas = *d.Spec.Replicas
	}
	f.Strategy = string(d.Spec.Strategy.Type)
	// The API server fills in what is missing; these are its defaults.
	f.MaxSurge, f.MaxUnavailable = "25%", "25%"
	if r := d.Spec.Strategy.RollingUpdate; r != nil {
		f.MaxSurge, f.MaxUnavailable = text(r.MaxSurge, f.MaxSurge), text(r.MaxUnavailable, f.MaxUnavailable)
	}
	return f
}

func text(v *intstr.IntOrString, otherwise string) string {
	if v == nil {
		return otherwise
	}
	return v.String()
}

// Refusal says why the owner of pods can't be surged; "" if it can: its Deployment creates the new pod before
// it removes the old one.
func Refusal(f *ledger.SurgeFacts) string {
	switch {
	case f.Owner == "":
		return "it has no controller that creates it again"
	case f.Owner != "ReplicaSet":
		return fmt.Sprintf("a %s creates no new pod before the old one is gone", f.Owner)
	case f.Volume != "":
		return fmt.Sprintf("PersistentVolumeClaim %q is for one node at a time", f.Volume)
	case f.Failure != "":
		return f.Failure
	case f.Deployment == "":
		return "no Deployment controls its ReplicaSet"
	case f.Paused:
		return fmt.Sprintf("Deployment %s is paused", f.Deployment)
	case f.Strategy != "RollingUpdate":
		return fmt.Sprintf("Deployment %s has strategy %s", f.Deployment, f.Strategy)
	}
	surge, err := amount(f.MaxSurge, f.Replicas, true)
	if err != nil {
		return fmt.Sprintf("maxSurge of Deployment %s: %v", f.Deployment, err)
	}
	unavailable, err := amount(f.MaxUnavailable, f.Replicas, false)
	if err != nil {
		return fmt.Sprintf("maxUnavailable of Deployment %s: %v", f.Deployment, err)
	}
	switch {
	case surge < 1:
		return fmt.Sprintf("maxSurge of Deployment %s is %s", f.Deployment, f.MaxSurge)
	case unavailable > 0:
		return fmt.Sprintf("maxUnavailable of Deployment %s is %s, which comes to %d of %d replicas", f.Deployment, f.MaxUnavailable, unavailable, f.Replicas)
	}
	return ""
}

// amount of replicas, or a percentage of them, as Deployments round it.
func amount(text string, replicas int32, up bool) (int, error) {
	v := intstr.Parse(text)
	return intstr.GetScaledValueFromIntOrPercent(&v, int(replicas), up)
}
