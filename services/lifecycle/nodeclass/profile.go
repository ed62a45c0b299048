package nodeclass

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"hash/fnv"
	"maps"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	awsv1 "millwright/api/karpenteraws/v1"
	"millwright/planner/condition"
	"millwright/services/internal/ec2"
)

// profile fills status.instanceProfile: the given one, or one made for the role. A new role gets a new
// profile, so that nothing changes under nodes that run; the name is a hash of class and role, so that a lost
// status write makes no second one.
func (p *pass) profile(ctx context.Context, faults []Fault) (time.Duration, error) {
	if bad := faultsOf(faults, fieldRole); bad != "" {
		p.nc.Status.InstanceProfile = ""
		p.conditions.False(awsv1.ConditionTypeInstanceProfileReady, "InstanceProfileNotReady", bad)
		return retrySoon, nil
	}
	if given := value(p.nc.Spec.InstanceProfile); given != "" {
		p.nc.Status.InstanceProfile = given
		p.conditions.True(awsv1.ConditionTypeInstanceProfileReady)
		return 0, nil
	}
	name, err := p.roleProfile(ctx, roleName(p.nc.Spec.Role))
	if err != nil && name != "" && p.isResolved(awsv1.ConditionTypeInstanceProfileReady) {
		return retrySoon, fmt.Errorf("ask for instance profile %s again: %w", name, err)
	}
	if err != nil {
		if c := ec2.Classify(err); c == ec2.NotFound || c == ec2.Permanent {
			p.conditions.Unknown(awsv1.ConditionTypeInstanceProfileReady, "InstanceProfileNotReady", "spec.role: "+ec2.Text(err))
		}
		return retrySoon, fmt.Errorf("resolve instance profile: %w", err)
	}
	p.nc.Status.InstanceProfile = name
	p.conditions.True(awsv1.ConditionTypeInstanceProfileReady)
	return 0, nil
}

// isResolved reports that a condition is True of the class as it is now. Then what launches need has been
// found, and they do not fail because AWS refuses to say so again, as without rights to IAM.
func (p *pass) isResolved(kind string) bool {
	c := condition.Get(p.conditions.Conditions, kind)
	return c != nil && c.Status == metav1.ConditionTrue && c.ObservedGeneration == p.nc.Generation
}

// roleProfile keeps the profile the status names if it has the role, else makes ours. With an error the name
// is that of a profile of which it could not be asked.
func (p *pass) roleProfile(ctx context.Context, role string) (string, error) {
	if missing, ok := p.caches.noRole.lookup(role); ok {
		return "", missing.value
	}
	name := p.nc.Status.InstanceProfile
	if name != "" {
		ok, err := p.hasRole(ctx, name, role)
		if ok || err != nil {
			return name, err
		}
	}
	want := ec2.InstanceProfile{Name: profileName(p.cfg, p.nc, role), Path: profilePath(p.cfg, p.nc), Role: role, Tags: profileTags(p.cfg, p.nc)}
	err := p.cfg.Cloud.EnsureInstanceProfile(ctx, want)
	if ec2.IsNotFound(err) {
		err = fmt.Errorf("role %q not found: %w", role, err)
		p.caches.noRole.put(role, err)
	}
	if err != nil {
		return "", err
	}
	p.caches.profiles.put(want.Name+"/"+role, true)
	return want.Name, nil
}

func (p *pass) hasRole(ctx context.Context, name, role string) (bool, error) {
	if _, known := p.caches.profiles.lookup(name + "/" + role); known {
		return true, nil
	}
	have, err := p.cfg.Cloud.InstanceProfile(ctx, name)
	if ec2.IsNotFound(err) {
		return false, nil
	}
	if err != nil || have.Role != role {
		return false, err
	}
	p.caches.profiles.put(name+"/"+role, true)
	return true, nil
}

// roleName cuts a path down to the role's name.
func roleName(role string) string { return role[strings.LastIndex(role, "/")+1:] }

func profileName(cfg Config, nc *awsv1.EC2NodeClass, role string) string {
	sum := sha256.Sum256([]byte(strings.Join([]string{cfg.Region, nc.Name, string(nc.UID), role}, "\x00")))
	return fmt.Sprintf("%s_%d", cfg.Cluster, binary.BigEndian.Uint64(sum[:8]))
}

// legacyProfileName is the name earlier managers of this API gave the profile of a class (ec2 §3.4).
func legacyProfileName(cfg Config, nc *awsv1.EC2NodeClass) string {
	h := fnv.New64()
	h.Write([]byte(cfg.Region + nc.Name))
	return fmt.Sprintf("%s_%d", cfg.Cluster, h.Sum64())
}

func profilePath(cfg Config, nc *awsv1.EC2NodeClass) string {
	return clusterProfilePath(cfg) + string(nc.UID) + "/"
}

func clusterProfilePath(cfg Config) string {
	return fmt.Sprintf("/karpenter/%s/%s/", cfg.Region, cfg.Cluster)
}

func profileTags(cfg Config, nc *awsv1.EC2NodeClass) map[string]string {
	tags := map[string]string{}
	maps.Copy(tags, nc.Spec.Tags)
	tags[awsv1.TagClusterPrefix+cfg.Cluster] = "owned"
	tags[awsv1.TagEKSClusterName] = cfg.Cluster
	tags[awsv1.TagNodeClass] = nc.Name
	tags["topology.kubernetes.io/region"] = cfg.Region
	return tags
}
