package nodeclass

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	awsv1 "millwright/api/karpenteraws/v1"
	"millwright/services/internal/ec2"
)

// candidate is an image and what it asks of instance types.
type candidate struct {
	ec2.Image
	requirements []corev1.NodeSelectorRequirement
	deprecated   bool
}

// images fills status.amis: newest first.
func (p *pass) images(ctx context.Context, faults []Fault) (time.Duration, error) {
	if bad := faultsOf(faults, fieldImages); bad != "" {
		p.nc.Status.AMIs = nil
		p.conditions.False(awsv1.ConditionTypeAMIsReady, "UnsupportedAlias", bad)
		return retrySoon, nil
	}
	var found []candidate
	var err error
	if alias := awsv1.AMIAlias(p.nc); alias != "" {
		var version, why string
		if version, err = p.cfg.Version(ctx); err != nil {
			return retrySoon, fmt.Errorf("resolve AMIs: %w", err)
		}
		if found, why, err = p.aliasImages(ctx, alias, version); why != "" {
			p.nc.Status.AMIs = nil
			p.conditions.False(awsv1.ConditionTypeAMIsReady, "UnsupportedAlias", why)
			return imagesInterval, nil
		}
		if errors.Is(err, errNoParameter) {
			p.notes = append(p.notes, fmt.Sprintf("failed to discover any AMIs for alias %q on Kubernetes %s", alias, version))
			if err = nil; p.conditions.StatusOf(awsv1.ConditionTypeAMIsReady) == metav1.ConditionTrue && len(p.nc.Status.AMIs) > 0 {
				return retrySoon, nil // those of the Kubernetes before serve until there are others
			}
		}
	} else {
		found, err = p.termImages(ctx)
	}
	if err != nil {
		return retrySoon, fmt.Errorf("resolve AMIs: %w", err)
	}
	p.nc.Status.AMIs = amis(found)
	skipped := unknownArchitectures(found)
	for _, text := range skipped[:min(len(skipped), skippedMax)] {
		p.notes = append(p.notes, "skipped "+text)
	}
	if more := len(skipped) - skippedMax; more > 0 {
		p.notes = append(p.notes, fmt.Sprintf("skipped %d more images, whose architectures are not supported", more))
	}
	if len(p.nc.Status.AMIs) == 0 {
		message := "AMISelector did not match any AMIs"
		if len(skipped) > 0 {
			message += " that can be used: " + strings.Join(skipped[:min(len(skipped), skippedMax)], ", ")
		}
		p.conditions.False(awsv1.ConditionTypeAMIsReady, "AMINotFound", message)
		return retrySoon, nil
	}
	p.conditions.True(awsv1.ConditionTypeAMIsReady)
	return imagesInterval, nil
}

// errNoParameter: SSM has none of the parameters of an alias.
var errNoParameter = errors.New("no parameter of the alias exists")

// aliasImages asks SSM for the images of an alias. why is not empty if there can be none.
func (p *pass) aliasImages(ctx context.Context, alias, k string) (found []candidate, why string, err error) {
	family, version, _ := awsv1.ParseAMIAlias(alias) // Validate has looked at it
	if why = unsupported(family, k); why != "" {
		return nil, why, nil
	}
	ids := map[string]string{} // by parameter
	variants := aliasVariants(family, version, k)
	for _, v := range variants {
		if ids[v.parameter], err = p.parameter(ctx, p.caches.parameters, v.parameter); err != nil {
			return nil, "", err
		}
	}
	if !slices.ContainsFunc(variants, func(v variant) bool { return ids[v.parameter] != "" }) {
		return nil, "", errNoParameter
	}
	byID, err := p.describe(ctx, ids)
	if err != nil {
		return nil, "", err
	}
	for _, v := range variants {
		if image, ok := byID[ids[v.parameter]]; ok {
			found = append(found, p.candidateOf(image, v.requirements))
			p.forgetDeprecated(v.parameter, image)
		}
	}
	return found, "", nil
}

// forgetDeprecated makes SSM be asked again for a parameter that may have moved on.
func (p *pass) forgetDeprecated(parameter string, image ec2.Image) {
	e, ok := p.caches.parameters.lookup(parameter)
	if ok && p.deprecated(image) && p.cfg.Now().Sub(e.at).Abs() >= deprecatedTTL {
		p.caches.parameters.drop(parameter)
	}
}

// parameter returns an SSM parameter's value, "" if it does not exist.
func (p *pass) parameter(ctx context.Context, c *cache[string], name string) (string, error) {
	if _, missing := p.caches.noParameter.lookup(name); missing {
		return "", nil
	}
	v, err := c.get(name, func() (string, error) { return p.cfg.Cloud.SSMParameter(ctx, name) })
	if ec2.IsNotFound(err) {
		p.caches.noParameter.put(name, true)
		return "", nil
	}
	return v, err
}

// describe returns the images with these ids that exist, by id.
func (p *pass) describe(ctx context.Context, ids map[string]string) (map[string]ec2.Image, error) {
	var wanted []string
	for _, id := range ids {
		if id != "" {
			wanted = append(wanted, id)
		}
	}
	byID := map[string]ec2.Image{}
	if len(wanted) == 0 {
		return byID, nil
	}
	slices.Sort(wanted)
	images, err := p.query(ctx, ec2.ImageQuery{IDs: slices.Compact(wanted)})
	for _, i := range images {
		byID[i.ID] = i
	}
	return byID, err
}

func (p *pass) query(ctx context.Context, q ec2.ImageQuery) ([]ec2.Image, error) {
	return p.caches.images.get(key(q), func() ([]ec2.Image, error) { return p.cfg.Cloud.DescribeImages(ctx, q) })
}

// termImages resolves terms other than an alias. Ids, also those SSM gives, are asked for together.
func (p *pass) termImages(ctx context.Context) ([]candidate, error) {
	var found []candidate
	ids := map[string]string{}
	for i, t := range p.nc.Spec.AMISelectorTerms {
		switch {
		case t.ID != "":
			ids[t.ID] = t.ID
		case t.SSMParameter != "":
			id, err := p.parameter(ctx, p.caches.userParameters, t.SSMParameter)
			if err != nil {
				return nil, err
			}
			if !strings.HasPrefix(id, "ami-") {
				p.notes = append(p.notes, fmt.Sprintf("%s[%d].ssmParameter: %q does not name an AMI, it is skipped", fieldImages, i, t.SSMParameter))
				continue
			}
			ids[id] = id
		default:
			images, err := p.query(ctx, imageQuery(t))
			if err != nil {
				return nil, err
			}
			for _, image := range images {
				found = append(found, p.candidateOf(image, nil))
			}
		}
	}
	byID, err := p.describe(ctx, ids)
	if err != nil {
		return nil, err
	}
	for _, image := range byID {
		found = append(found, p.candidateOf(image, nil))
	}
	return found, nil
}

func imageQuery(t awsv1.AMISelectorTerm) ec2.ImageQuery {
	q := ec2.ImageQuery{Name: t.Name, Tags: t.Tags}
	switch {
	case t.Owner != "":
		q.Owners = []string{t.Owner}
	case t.Name != "":
		q.Owners = []string{"self", "amazon"}
	}
	return q
}

var archOf = map[string]string{"x86_64": "amd64", "arm64": "arm64"}

// candidateOf adds the image's architecture to what it asks; keys sorted by length, then text.
func (p *pass) candidateOf(image ec2.Image, requirements []corev1.NodeSelectorRequirement) candidate {
	arch := corev1.NodeSelectorRequirement{Key: corev1.LabelArchStable, Operator: corev1.NodeSelectorOpIn, Values: []string{archOf[image.Architecture]}}
	c := candidate{Image: image, requirements: append(slices.Clone(requirements), arch), deprecated: p.deprecated(image)}
	slices.SortFunc(c.requirements, func(a, b corev1.NodeSelectorRequirement) int {
		return cmp.Or(cmp.Compare(len(a.Key), len(b.Key)), cmp.Compare(a.Key, b.Key))
	})
	return c
}

func (p *pass) deprecated(image ec2.Image) bool {
	return !image.DeprecatedAt.IsZero() && !image.DeprecatedAt.After(p.cfg.Now())
}

// skippedMax bounds the images that a condition names, and those that have a KubeEvent of their own:
// client-go drops what is said of an object that very much was said of lately, whatever it is.
const skippedMax = 5

// unknownArchitectures names the images that are for no architecture of Kubernetes that EC2 runs.
func unknownArchitectures(found []candidate) []string {
	var out []string
	for _, c := range found {
		if archOf[c.Architecture] == "" {
			out = append(out, fmt.Sprintf("%s (architecture %q is not supported)", c.ID, c.Architecture))
		}
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// amis keeps the newest image per set of requirements, newest first.
func amis(found []candidate) []awsv1.AMI {
	found = slices.DeleteFunc(slices.Clone(found), func(c candidate) bool { return archOf[c.Architecture] == "" })
	slices.SortFunc(found, newestFirst)
	seen := map[string]bool{}
	var kept []candidate
	for _, c := range found {
		if k := key(c.requirements); !seen[k] {
			seen[k], kept = true, append(kept, c)
		}
	}
	slices.SortFunc(kept, func(a, b candidate) int {
		return cmp.Or(b.Created.Compare(a.Created), cmp.Compare(a.ID, b.ID), cmp.Compare(key(a.requirements), key(b.requirements)))
	})
	var out []awsv1.AMI
	for _, c := range kept {
		out = append(out, awsv1.AMI{ID: c.ID, Name: c.Name, Deprecated: c.deprecated, Requirements: c.requirements})
	}
	return out
}

// newestFirst: not deprecated before deprecated, then newer, then greater name, then id.
func newestFirst(a, b candidate) int {
	if a.deprecated != b.deprecated {
		if b.deprecated {
			return -1
		}
		return 1
	}
	return cmp.Or(b.Created.Compare(a.Created), cmp.Compare(b.Name, a.Name), cmp.Compare(a.ID, b.ID))
}
