package ec2

import (
	"context"
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	awsec2 "github.com/aws/aws-sdk-go-v2/service/ec2"
	ec2types "github.com/aws/aws-sdk-go-v2/service/ec2/types"
	"github.com/aws/aws-sdk-go-v2/service/ssm"
)

// Image as EC2 describes it.
type Image struct {
	ID, Name string
	// Architecture as EC2 spells it: x86_64, arm64, …
	Architecture string
	Created      time.Time
	// DeprecatedAt is zero if no deprecation is set.
	DeprecatedAt time.Time
}

// ImageQuery selects images: by ids, or by name and tags. Fields are ANDed.
type ImageQuery struct {
	IDs    []string
	Name   string
	Tags   map[string]string
	Owners []string
}

const imagePageSize = 1000

// DescribeImages returns the available images of a query, deprecated ones included, by id. Unknown ids are
// omitted.
func (c *Client) DescribeImages(ctx context.Context, q ImageQuery) ([]Image, error) {
	filters := append([]ec2types.Filter{filter("state", "available")}, tagFilters(q.Tags)...)
	if len(q.IDs) > 0 {
		filters = append(filters, filter("image-id", q.IDs...))
	}
	if q.Name != "" {
		filters = append(filters, filter("name", q.Name))
	}
	in := &awsec2.DescribeImagesInput{Filters: filters, Owners: q.Owners, IncludeDeprecated: aws.Bool(true), MaxResults: aws.Int32(imagePageSize)}
	byID := map[string]Image{}
	var pages Pages
	for p := awsec2.NewDescribeImagesPaginator(c.ec2, in); p.HasMorePages(); {
		page, err := read(ctx, c, "ec2:DescribeImages", p.NextPage)
		if err == nil {
			err = pages.Next("ec2:DescribeImages", page.NextToken)
		}
		if err != nil {
			return nil, err
		}
		for _, i := range page.Images {
			if id := aws.ToString(i.ImageId); len(q.IDs) == 0 || slices.Contains(q.IDs, id) {
				byID[id] = imageOf(i)
			}
		}
	}
	return sortedValues(byID, func(a, b Image) int { return strings.Compare(a.ID, b.ID) }), nil
}

func imageOf(i ec2types.Image) Image {
	return Image{
		ID: aws.ToString(i.ImageId), Name: aws.ToString(i.Name), Architecture: string(i.Architecture),
		Created: timestamp(i.CreationDate), DeprecatedAt: timestamp(i.DeprecationTime),
	}
}

func timestamp(s *string) time.Time {
	t, _ := time.Parse(time.RFC3339, aws.ToString(s)) // zero if absent or malformed: sorts oldest, never deprecated
	return t
}

// SSMParameter returns the value of a parameter. A missing one is an error of class NotFound.
func (c *Client) SSMParameter(ctx context.Context, name string) (string, error) {
	out, err := read(ctx, c, "ssm:GetParameter", with(c.ssm.GetParameter, &ssm.GetParameterInput{Name: aws.String(name)}))
	if err != nil {
		return "", err
	}
	if out.Parameter == nil {
		return "", &CallError{Action: "ssm:GetParameter", Err: errors.New("answer has no parameter")}
	}
	return aws.ToString(out.Parameter.Value), nil
}
