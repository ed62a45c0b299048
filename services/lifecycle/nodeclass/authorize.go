package nodeclass

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	karpv1 "millwright/api/karpenter/v1"
	awsv1 "millwright/api/karpenteraws/v1"
)

// How long answers about permissions hold: policies change at times (ec2 §3.5).
const (
	allowedTTL = 30 * time.Minute
	refusedTTL = time.Minute
)

// Refusal says that launches from a class would be refused, as the condition ValidationSucceeded tells it.
type Refusal struct {
	Reason, Message string
	Err             error
}

func (r *Refusal) Error() string { return fmt.Sprintf("%s: %s: %v", r.Reason, r.Message, r.Err) }

func (r *Refusal) Unwrap() error { return r.Err }

// authorize asks whether launches are allowed, once all that they need is resolved. Without a definite answer
// the condition stays as it was.
func (p *pass) authorize(ctx context.Context) (time.Duration, error) {
	const kind = karpv1.ConditionTypeValidationSucceeded
	if p.cfg.Authorize == nil {
		p.conditions.True(kind)
		return validateInterval, nil
	}
	question := launchKey(p.nc)
	refusal, known := p.caches.refused.lookup(question)
	_, err := p.caches.allowed.get(question, func() (bool, error) {
		if known {
			return false, refusal.value
		}
		return true, p.cfg.Authorize(ctx, p.nc)
	})
	switch no, ok := errors.AsType[*Refusal](err); {
	case err == nil:
		p.conditions.True(kind)
		return validateInterval, nil
	case ok:
		if !known {
			p.caches.refused.put(question, no)
		}
		p.conditions.False(kind, no.Reason, no.Message)
		return retrySoon, nil
	}
	return retrySoon, fmt.Errorf("check that launches are allowed: %w", err)
}

// launchKey is all of a class that can change the answer; the order of subnets, which follows their free
// addresses, is not.
func launchKey(nc *awsv1.EC2NodeClass) string {
	s := nc.Status
	var ids []string
	for _, x := range s.Subnets {
		ids = append(ids, x.ID)
	}
	for _, x := range s.SecurityGroups {
		ids = append(ids, x.ID)
	}
	for _, x := range s.AMIs {
		ids = append(ids, x.ID)
	}
	slices.Sort(ids)
	return key([]any{nc.Name, nc.UID, nc.Generation, ids, s.InstanceProfile})
}
