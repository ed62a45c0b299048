package lifecycle

import (
	"context"
	"fmt"

	awsec2 "github.com/aws/aws-sdk-go-v2/service/ec2"
	"k8s.io/apimachinery/pkg/types"

	karpv1 "millwright/api/karpenter/v1"
	"millwright/planner/ledger"
	"millwright/services/internal/ec2"
	"millwright/services/internal/service"
)

// stoppedKube and stoppedEC2 ask right before each call that creates or ends something whether operators have
// stopped it since it was begun. What planner/claim holds back in the first place does not come here.
type stoppedKube struct {
	Kube
	host service.Host
}

func (k stoppedKube) CreateNodeClaim(ctx context.Context, claim *karpv1.NodeClaim) (*karpv1.NodeClaim, error) {
	if err := unlessStopped(k.host, "create nodeclaim "+claim.Name); err != nil {
		return nil, err
	}
	return k.Kube.CreateNodeClaim(ctx, claim)
}

func (k stoppedKube) DeleteNodeClaim(ctx context.Context, name string, uid types.UID) error {
	if err := unlessStopped(k.host, "delete nodeclaim "+name); err != nil {
		return err
	}
	return k.Kube.DeleteNodeClaim(ctx, name, uid)
}

type stoppedEC2 struct {
	EC2
	host service.Host
}

func (c stoppedEC2) CreateFleet(ctx context.Context, in *awsec2.CreateFleetInput) (ec2.FleetResult, error) {
	if err := unlessStopped(c.host, "create fleet"); err != nil {
		return ec2.FleetResult{}, err
	}
	return c.EC2.CreateFleet(ctx, in)
}

func (c stoppedEC2) TerminateInstances(ctx context.Context, ids []string) error {
	if err := unlessStopped(c.host, "terminate instances"); err != nil {
		return err
	}
	return c.EC2.TerminateInstances(ctx, ids)
}

func unlessStopped(h service.Host, what string) error {
	if h.Stop() == ledger.StopAll {
		return fmt.Errorf("%s: %w", what, service.ErrStopped)
	}
	return nil
}
