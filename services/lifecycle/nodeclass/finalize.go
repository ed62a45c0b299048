package nodeclass

import (
	"context"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"

	karpv1 "millwright/api/karpenter/v1"
	awsv1 "millwright/api/karpenteraws/v1"
	"millwright/services/internal/ec2"
)

// namesMax is how many NodeClaims an event names.
const namesMax = 5

// finalize cleans up after a class that no NodeClaim uses any more, then lets it go (ec2 §3.6).
func (r *Reconciler) finalize(ctx context.Context, nc *awsv1.EC2NodeClass, claims []*karpv1.NodeClaim) (Change, time.Duration, error) {
	change := Change{Object: nc.DeepCopy()}
	if !slices.Contains(nc.Finalizers, awsv1.TerminationFinalizer) {
		return change, 0, nil
	}
	if len(claims) > 0 {
		change.Events = append(change.Events, event(nc, corev1.EventTypeNormal, "WaitingOnNodeClaimTermination",
			"Waiting on NodeClaim termination for "+nameList(claims)))
		return change, waitInterval, nil
	}
	if err := r.deleteProfiles(ctx, nc); err != nil {
		return change, retrySoon, fmt.Errorf("delete instance profiles of %s: %w", nc.Name, err)
	}
	if err := r.cfg.DeleteTemplates(ctx, nc.Name); err != nil {
		return change, retrySoon, fmt.Errorf("delete launch templates of %s: %w", nc.Name, err)
	}
	change.Object.Finalizers = slices.DeleteFunc(change.Object.Finalizers, func(f string) bool { return f == awsv1.TerminationFinalizer })
	return change, 0, nil
}

func nameList(claims []*karpv1.NodeClaim) string {
	var names []string
	for _, c := range claims {
		names = append(names, c.Name)
	}
	slices.Sort(names)
	if len(names) <= namesMax {
		return strings.Join(names, ", ")
	}
	return fmt.Sprintf("%s and %d other(s)", strings.Join(names[:namesMax], ", "), len(names)-namesMax)
}

// profileNameForm is that of the names that IAM takes; about others it refuses to be asked.
var profileNameForm = regexp.MustCompile(`^[\w+=,.@-]{1,128}$`)

// deleteProfiles deletes what stands under the class's own path, and the profile of its older name if it is
// tagged as the class's. The class may have had a role then, and none now.
func (r *Reconciler) deleteProfiles(ctx context.Context, nc *awsv1.EC2NodeClass) error {
	if r.cfg.IsolatedVPC {
		return nil
	}
	profiles, err := r.cfg.Cloud.InstanceProfiles(ctx, profilePath(r.cfg, nc))
	if err != nil && !mayLackRights(nc, err) {
		return err
	}
	var refused ec2.Refusals
	for _, p := range profiles {
		if err := refused.Take(r.cfg.Cloud.DeleteInstanceProfile(ctx, p.Name)); err != nil {
			return err
		}
	}
	if err := refused.Err(); err != nil {
		return err
	}
	name := legacyProfileName(r.cfg, nc)
	if !profileNameForm.MatchString(name) || value(nc.Spec.InstanceProfile) == name {
		return nil
	}
	legacy, err := r.cfg.Cloud.InstanceProfile(ctx, name)
	if ec2.IsNotFound(err) || err == nil && legacy.Tags[awsv1.TagNodeClass] != nc.Name {
		return nil
	}
	if err == nil {
		err = r.cfg.Cloud.DeleteInstanceProfile(ctx, legacy.Name)
	}
	if mayLackRights(nc, err) {
		return nil
	}
	return err
}

// mayLackRights: who does not use roles, or no longer does, need not have the rights to instance profiles;
// then there are none to delete, or they stay.
func mayLackRights(nc *awsv1.EC2NodeClass, err error) bool {
	return nc.Spec.Role == "" && ec2.IsUnauthorized(err)
}

// CollectProfiles deletes profiles under the cluster's path that no class's status, no NodeClaim's annotation
// and no launch that may follow names. The lists must be complete.
func (r *Reconciler) CollectProfiles(ctx context.Context, classes []*awsv1.EC2NodeClass, claims []*karpv1.NodeClaim) error {
	if r.cfg.IsolatedVPC {
		return nil
	}
	used := map[string]bool{}
	for _, nc := range classes {
		used[nc.Status.InstanceProfile] = true
		used[profileName(r.cfg, nc, roleName(nc.Spec.Role))] = true // made, but the status may not say so yet
	}
	for _, c := range claims {
		used[c.Annotations[awsv1.InstanceProfileAnnotationKey]] = true
	}
	profiles, err := r.cfg.Cloud.InstanceProfiles(ctx, clusterProfilePath(r.cfg))
	if err != nil {
		return err
	}
	var refused ec2.Refusals
	for _, p := range profiles {
		if used[p.Name] {
			continue
		}
		if err := refused.Take(r.cfg.Cloud.DeleteInstanceProfile(ctx, p.Name)); err != nil {
			return err
		}
	}
	return refused.Err()
}
