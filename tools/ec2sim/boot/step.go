package boot

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"millwright/tools/ec2sim/sim/instance"
	"millwright/tools/ec2sim/simclient"
)

// step is the next thing to do for a machine.
type step string

const (
	nothing  step = ""
	register step = "register"
	hand     step = "hand over" // to KWOK: from now on the Node is Ready
	publish  step = "publish devices of"
	stop     step = "stop"
	remove   step = "delete"
)

// registeredKey is the label of Nodes that Millwright, or Karpenter, has registered.
const registeredKey = "karpenter.sh/registered"

// next decides from the machine's state, the delays and the clock alone.
func next(m *instance.Machine, s simclient.Settings, now time.Time) step {
	p := m.Progress
	running := m.State == instance.Running && !m.Failed
	if p.Node == "" {
		if running && p.Problem == "" && !s.BootingPaused && !now.Before(m.RunningAt.Add(time.Duration(s.Boot))) {
			return register
		}
		return nothing
	}
	if !running {
		return nextDown(m)
	}
	switch {
	case (!p.Alive || p.Stopped) && !now.Before(p.RegisteredAt.Add(time.Duration(s.Ready))):
		return hand
	case !p.Devices && !now.Before(p.RegisteredAt.Add(time.Duration(s.DevicePlugins))):
		return publish
	}
	return nothing
}

func nextDown(m *instance.Machine) step {
	switch {
	case !m.Progress.Stopped:
		return stop
	case m.State == instance.Terminated && !m.Progress.Deleted:
		return remove
	}
	return nothing
}

// register decodes the user data and creates the Node. User data that cannot work is a lasting problem, not
// an error to retry.
func (r *Runner) register(ctx context.Context, m *instance.Machine) (instance.Progress, error) {
	node, err := r.prepare(m)
	if err != nil {
		r.cfg.Log.Warn().Err(err).Str("instance", m.ID).Msg("instance will never register")
		return instance.Progress{Problem: err.Error()}, nil
	}
	settings := r.cfg.Cloud.Settings()
	p := instance.Progress{Node: node.Name, RegisteredAt: r.cfg.Cloud.Now()}
	if settings.Ready == 0 {
		node.Annotations = map[string]string{ManagedKey: ManagedValue}
		p.Alive = true
	}
	if found := devices(m); settings.DevicePlugins == 0 || len(found) == 0 {
		addTo(node.Status.Capacity, found)
		addTo(node.Status.Allocatable, found)
		p.Devices = true
	}
	if _, err := r.cfg.Kube.CoreV1().Nodes().Create(ctx, node, metav1.CreateOptions{}); err != nil {
		if !apierrors.IsAlreadyExists(err) {
			return p, fmt.Errorf("register node %s: %w", node.Name, err)
		}
		if err := r.adopt(ctx, node); err != nil {
			return p, err
		}
	}
	r.cfg.Log.Info().Str("instance", m.ID).Str("node", node.Name).Str("type", m.Type.Name).Str("zone", m.Zone).Msg("node registered")
	return p, nil
}

func (r *Runner) prepare(m *instance.Machine) (*corev1.Node, error) {
	b, err := Decode(m.UserData)
	if err != nil {
		return nil, err
	}
	if err := r.cfg.Cluster.admit(b, m.ImageFamily); err != nil {
		return nil, err
	}
	return NewNode(m, b, &r.cfg.Cluster, r.cfg.MemoryOverhead)
}

// adopt takes over a Node of that name: it is this instance's own, from a registration whose answer was lost,
// or the leftover of a dead one that had the same address.
func (r *Runner) adopt(ctx context.Context, node *corev1.Node) error {
	nodes := r.cfg.Kube.CoreV1().Nodes()
	old, err := nodes.Get(ctx, node.Name, metav1.GetOptions{})
	if err != nil {
		return fmt.Errorf("get node %s: %w", node.Name, err)
	}
	if old.Spec.ProviderID == node.Spec.ProviderID {
		return nil
	}
	return fmt.Errorf("node %s still belongs to %s", node.Name, old.Spec.ProviderID)
}

func addTo(list, more corev1.ResourceList) {
	for name, q := range more {
		list[name] = q
	}
}

// manage hands the Node to KWOK. A Node that somebody deleted stays away: a kubelet registers only when it
// starts.
func (r *Runner) manage(ctx context.Context, name string) error {
	return r.patch(ctx, name, map[string]any{"metadata": map[string]any{"annotations": map[string]any{ManagedKey: ManagedValue}}})
}

// publish adds the extended resources to the Node's status.
func (r *Runner) publish(ctx context.Context, m *instance.Machine) error {
	found := devices(m)
	return r.patch(ctx, m.Progress.Node, map[string]any{"status": map[string]any{"capacity": found, "allocatable": found}}, "status")
}

// stop takes the Node from KWOK and makes it look as if its kubelet were lost.
func (r *Runner) stop(ctx context.Context, name string) error {
	err := r.patch(ctx, name, map[string]any{"metadata": map[string]any{"annotations": map[string]any{ManagedKey: nil}}})
	if err != nil {
		return err
	}
	now := metav1.Now()
	var conditions []map[string]any
	for _, kind := range []corev1.NodeConditionType{corev1.NodeReady, corev1.NodeMemoryPressure, corev1.NodeDiskPressure, corev1.NodePIDPressure} {
		conditions = append(conditions, map[string]any{"type": kind, "status": corev1.ConditionUnknown, "reason": "NodeStatusUnknown",
			"message": "Kubelet stopped posting node status.", "lastTransitionTime": now})
	}
	return r.patch(ctx, name, map[string]any{"status": map[string]any{"conditions": conditions}}, "status")
}

// remove deletes the Node of a terminated instance as a cloud controller does. Unless all such Nodes are to
// be deleted, those that Millwright had taken over are left: deleting them is its own work.
func (r *Runner) remove(ctx context.Context, m *instance.Machine) error {
	nodes := r.cfg.Kube.CoreV1().Nodes()
	node, err := nodes.Get(ctx, m.Progress.Node, metav1.GetOptions{})
	switch {
	case apierrors.IsNotFound(err):
		return nil
	case err != nil:
		return err
	case node.Spec.ProviderID != providerID(m), !r.cfg.DeleteNodes && node.Labels[registeredKey] == "true":
		return nil
	}
	err = nodes.Delete(ctx, node.Name, metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: &node.UID}})
	if apierrors.IsNotFound(err) {
		return nil
	}
	return err
}

// patch merges into a Node; if the Node is gone, there is nothing to do.
func (r *Runner) patch(ctx context.Context, name string, body map[string]any, subresources ...string) error {
	data, err := json.Marshal(body)
	if err != nil {
		return err
	}
	_, err = r.cfg.Kube.CoreV1().Nodes().Patch(ctx, name, types.StrategicMergePatchType, data, metav1.PatchOptions{}, subresources...)
	if apierrors.IsNotFound(err) {
		return nil
	}
	return err
}
