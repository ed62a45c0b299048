package ec2

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	awsec2 "github.com/aws/aws-sdk-go-v2/service/ec2"
	ec2types "github.com/aws/aws-sdk-go-v2/service/ec2/types"

	"millwright/planner/ledger"
)

// LaunchTemplate to make. Name must be a hash of everything else: an existing one with this name is used as
// it is.
type LaunchTemplate struct {
	Name string
	Data *ec2types.RequestLaunchTemplateData
	Tags map[string]string
}

// firstVersion is the version EC2 gives a new template; only its creator writes it.
const firstVersion = 1

// EnsureLaunchTemplate returns the template with this name, and creates it if it does not exist.
func (c *Client) EnsureLaunchTemplate(ctx context.Context, t LaunchTemplate) (ledger.LaunchTemplateRef, error) {
	ref, err := c.findTemplate(ctx, t.Name)
	if err == nil || !IsNotFound(err) {
		return ref, err
	}
	out, err := write(ctx, c, "ec2:CreateLaunchTemplate", with(c.ec2.CreateLaunchTemplate, createTemplate(t)))
	if Code(err) == "InvalidLaunchTemplateName.AlreadyExistsException" {
		return c.findTemplate(ctx, t.Name) // another launch was faster
	}
	if err != nil {
		return ledger.LaunchTemplateRef{}, err
	}
	return templateRef(out.LaunchTemplate)
}

func createTemplate(t LaunchTemplate) *awsec2.CreateLaunchTemplateInput {
	return &awsec2.CreateLaunchTemplateInput{
		LaunchTemplateName: aws.String(t.Name), LaunchTemplateData: t.Data,
		TagSpecifications: []ec2types.TagSpecification{{ResourceType: ec2types.ResourceTypeLaunchTemplate, Tags: Tags(t.Tags)}},
	}
}

func (c *Client) findTemplate(ctx context.Context, name string) (ledger.LaunchTemplateRef, error) {
	out, err := read(ctx, c, "ec2:DescribeLaunchTemplates", with(c.ec2.DescribeLaunchTemplates, &awsec2.DescribeLaunchTemplatesInput{LaunchTemplateNames: []string{name}}))
	if err != nil {
		return ledger.LaunchTemplateRef{}, err
	}
	i := slices.IndexFunc(out.LaunchTemplates, func(t ec2types.LaunchTemplate) bool { return aws.ToString(t.LaunchTemplateName) == name })
	if i < 0 {
		return ledger.LaunchTemplateRef{}, &CallError{Action: "ec2:DescribeLaunchTemplates", Err: errNoTemplate}
	}
	return templateRef(&out.LaunchTemplates[i])
}

func templateRef(t *ec2types.LaunchTemplate) (ledger.LaunchTemplateRef, error) {
	if t == nil || aws.ToString(t.LaunchTemplateId) == "" {
		return ledger.LaunchTemplateRef{}, fmt.Errorf("read launch template: answer has no id")
	}
	return ledger.LaunchTemplateRef{ID: *t.LaunchTemplateId, Version: strconv.Itoa(firstVersion)}, nil
}

// TemplateSummary is a launch template that exists.
type TemplateSummary struct {
	ID, Name string
	Created  time.Time
	Tags     map[string]string
}

// DescribeLaunchTemplates returns the templates that carry all the tags, by id, as DescribeInstancesByTags
// does.
func (c *Client) DescribeLaunchTemplates(ctx context.Context, tags map[string]string) ([]TemplateSummary, error) {
	found := map[string]TemplateSummary{}
	in := &awsec2.DescribeLaunchTemplatesInput{Filters: tagFilters(tags)}
	var pages Pages
	for p := awsec2.NewDescribeLaunchTemplatesPaginator(c.ec2, in); p.HasMorePages(); {
		page, err := read(ctx, c, "ec2:DescribeLaunchTemplates", p.NextPage)
		if err == nil {
			err = pages.Next("ec2:DescribeLaunchTemplates", page.NextToken)
		}
		if err != nil {
			return nil, err
		}
		for _, t := range page.LaunchTemplates {
			if s := templateSummary(t); HasTags(s.Tags, tags) {
				found[s.ID] = s
			}
		}
	}
	return sortedValues(found, func(a, b TemplateSummary) int { return strings.Compare(a.ID, b.ID) }), nil
}

func templateSummary(t ec2types.LaunchTemplate) TemplateSummary {
	s := TemplateSummary{
		ID: aws.ToString(t.LaunchTemplateId), Name: aws.ToString(t.LaunchTemplateName),
		Created: aws.ToTime(t.CreateTime), Tags: map[string]string{},
	}
	for _, tag := range t.Tags {
		s.Tags[aws.ToString(tag.Key)] = aws.ToString(tag.Value)
	}
	return s
}

// DeleteLaunchTemplate deletes a template by id; one that does not exist counts as deleted.
func (c *Client) DeleteLaunchTemplate(ctx context.Context, id string) error {
	_, err := write(ctx, c, "ec2:DeleteLaunchTemplate", with(c.ec2.DeleteLaunchTemplate, &awsec2.DeleteLaunchTemplateInput{LaunchTemplateId: aws.String(id)}))
	if IsNotFound(err) {
		return nil
	}
	return err
}
