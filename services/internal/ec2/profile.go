package ec2

import (
	"context"
	"maps"
	"slices"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/iam"
	iamtypes "github.com/aws/aws-sdk-go-v2/service/iam/types"
)

// InstanceProfile as IAM knows it. Role is empty if none is attached.
type InstanceProfile struct {
	Name, Path, Role string
	Tags             map[string]string
}

// InstanceProfile returns a profile by name. A missing one is an error of class NotFound.
func (c *Client) InstanceProfile(ctx context.Context, name string) (InstanceProfile, error) {
	out, err := read(ctx, c, "iam:GetInstanceProfile", with(c.iam.GetInstanceProfile, &iam.GetInstanceProfileInput{InstanceProfileName: aws.String(name)}))
	if err != nil {
		return InstanceProfile{}, err
	}
	return profileOf(out.InstanceProfile), nil
}

// EnsureInstanceProfile creates the profile with its role if it is missing, and adds the role if it has none.
// A profile with another role is an error: profiles are never changed under running nodes; a new one needs
// another name. If the role cannot be added, a profile that was created here is deleted again.
func (c *Client) EnsureInstanceProfile(ctx context.Context, want InstanceProfile) error {
	have, err := c.InstanceProfile(ctx, want.Name)
	made := false
	if IsNotFound(err) {
		made = true
		have, err = c.createProfile(ctx, want)
	}
	switch {
	case err != nil:
		return err
	case have.Role == want.Role:
		return nil
	case have.Role != "":
		return &Failure{Class: Permanent, Reason: "InstanceProfileRoleMismatch", Message: "instance profile " + want.Name + " has role " + have.Role + ", not " + want.Role}
	}
	if err = c.addRole(ctx, want.Name, want.Role); err != nil && made {
		_ = c.DeleteInstanceProfile(ctx, want.Name) // the first error is the one that matters
	}
	return err
}

func (c *Client) createProfile(ctx context.Context, want InstanceProfile) (InstanceProfile, error) {
	in := &iam.CreateInstanceProfileInput{InstanceProfileName: aws.String(want.Name), Tags: iamTags(want.Tags)}
	if want.Path != "" {
		in.Path = aws.String(want.Path)
	}
	out, err := write(ctx, c, "iam:CreateInstanceProfile", with(c.iam.CreateInstanceProfile, in))
	if Code(err) == "EntityAlreadyExists" {
		return c.InstanceProfile(ctx, want.Name)
	}
	if err != nil {
		return InstanceProfile{}, err
	}
	return profileOf(out.InstanceProfile), nil
}

func (c *Client) addRole(ctx context.Context, profile, role string) error {
	in := &iam.AddRoleToInstanceProfileInput{InstanceProfileName: aws.String(profile), RoleName: aws.String(role)}
	_, err := write(ctx, c, "iam:AddRoleToInstanceProfile", with(c.iam.AddRoleToInstanceProfile, in))
	return err
}

// InstanceProfiles lists the profiles under an IAM path, by name. Others that IAM answers with are left out:
// what is listed may be deleted.
func (c *Client) InstanceProfiles(ctx context.Context, path string) ([]InstanceProfile, error) {
	var found []InstanceProfile
	var pages Pages
	for p := iam.NewListInstanceProfilesPaginator(c.iam, &iam.ListInstanceProfilesInput{PathPrefix: aws.String(path)}); p.HasMorePages(); {
		page, err := read(ctx, c, "iam:ListInstanceProfiles", p.NextPage)
		if err == nil {
			err = pages.Next("iam:ListInstanceProfiles", page.Marker)
		}
		if err != nil {
			return nil, err
		}
		for i := range page.InstanceProfiles {
			if p := profileOf(&page.InstanceProfiles[i]); strings.HasPrefix(p.Path, path) {
				found = append(found, p)
			}
		}
	}
	slices.SortFunc(found, func(a, b InstanceProfile) int { return strings.Compare(a.Name, b.Name) })
	return found, nil
}

// DeleteInstanceProfile removes the role from a profile and deletes it; a missing one counts as deleted.
func (c *Client) DeleteInstanceProfile(ctx context.Context, name string) error {
	have, err := c.InstanceProfile(ctx, name)
	if IsNotFound(err) {
		return nil
	}
	if err != nil {
		return err
	}
	if have.Role != "" {
		in := &iam.RemoveRoleFromInstanceProfileInput{InstanceProfileName: aws.String(name), RoleName: aws.String(have.Role)}
		if _, err := write(ctx, c, "iam:RemoveRoleFromInstanceProfile", with(c.iam.RemoveRoleFromInstanceProfile, in)); err != nil && !IsNotFound(err) {
			return err
		}
	}
	_, err = write(ctx, c, "iam:DeleteInstanceProfile", with(c.iam.DeleteInstanceProfile, &iam.DeleteInstanceProfileInput{InstanceProfileName: aws.String(name)}))
	if IsNotFound(err) {
		return nil
	}
	return err
}

func profileOf(p *iamtypes.InstanceProfile) InstanceProfile {
	if p == nil {
		return InstanceProfile{}
	}
	out := InstanceProfile{Name: aws.ToString(p.InstanceProfileName), Path: aws.ToString(p.Path), Tags: map[string]string{}}
	if len(p.Roles) > 0 {
		out.Role = aws.ToString(p.Roles[0].RoleName)
	}
	for _, t := range p.Tags {
		out.Tags[aws.ToString(t.Key)] = aws.ToString(t.Value)
	}
	return out
}

func iamTags(tags map[string]string) []iamtypes.Tag {
	var out []iamtypes.Tag
	for _, k := range slices.Sorted(maps.Keys(tags)) {
		out = append(out, iamtypes.Tag{Key: aws.String(k), Value: aws.String(tags[k])})
	}
	return out
}
