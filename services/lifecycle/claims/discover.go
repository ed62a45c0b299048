package claims

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"

	"millwright/planner/ledger"
	nodememory "millwright/planner/memory"
	"millwright/planner/world"
	"millwright/services/internal/lane"
	"millwright/services/internal/service"
	"millwright/services/lifecycle/launch"
)

// startDiscovery records how much memory a Node has that just registered, if the catalogue says otherwise
// and its image is the one that its NodeClass would choose now (ec2 §1.2). What is lost here the next Node
// of the type says again.
func (s *Stepper) startDiscovery(v *claimView, n *corev1.Node) {
	instance := v.ledger.Instance
	bytes := n.Status.Capacity.Memory().Value()
	if instance == nil || v.class == nil || bytes <= 0 {
		return
	}
	amount := nodememory.Amount{Key: nodememory.Key{InstanceType: instance.InstanceType, Images: world.ImagesOf(v.class)}, Bytes: bytes, Seen: s.host.Now()}
	s.effects.Start("memory/"+amount.Key.InstanceType+"/"+amount.Key.Images, lane.Converge, func(ctx context.Context) error {
		return s.discover(ctx, v, n.Name, amount)
	})
}

func (s *Stepper) discover(ctx context.Context, v *claimView, node string, amount nodememory.Amount) error {
	cat, _, err := s.catalogue(v)
	if err != nil {
		return nil // the World is young: the next Node says it
	}
	t, instance := cat.Type(amount.Key.InstanceType), v.ledger.Instance
	if t == nil || launch.ImageOf(t, v.class.Status.AMIs) != instance.ImageID {
		return nil
	}
	news := false
	err = s.host.Ledger(func(l *ledger.Ledger) error {
		_, known := l.Memory().Get(amount.Key)
		news = l.Memory().Learns(amount) && (known || t.Capacity.Memory != amount.Bytes)
		return nil
	})
	if err != nil || !news {
		return nil
	}
	_, err = s.host.Outcome(ctx, service.Outcome{
		Kind: ledger.KindMemoryDiscovered, Subjects: v.subjects(), Causation: v.causation(),
		Payload: &ledger.MemoryDiscovered{
			InstanceType: amount.Key.InstanceType, Images: amount.Key.Images, ImageID: instance.ImageID,
			Bytes: amount.Bytes, Estimated: t.Capacity.Memory, Node: node, Claim: v.name,
		},
	})
	if err != nil {
		return fmt.Errorf("record memory of node %s: %w", node, err)
	}
	return nil
}
