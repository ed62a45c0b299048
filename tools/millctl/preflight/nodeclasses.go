package preflight

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	ec2types "github.com/aws/aws-sdk-go-v2/service/ec2/types"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"

	awsv1 "millwright/api/karpenteraws/v1"
)

var nodeClasses = schema.GroupVersionResource{Group: "karpenter.k8s.aws", Version: "v1", Resource: "ec2nodeclasses"}

// checkNodeClasses looks up what the selectors of each EC2NodeClass select.
func checkNodeClasses(ctx context.Context, cfg Config, r *report) {
	if cfg.Kube == nil {
		r.add(Skipped, "", kubeFlag, noCluster)
		return
	}
	classes, unread, err := listNodeClasses(ctx, cfg)
	if err != nil {
		r.add(Skipped, "", "", "list EC2NodeClasses: %v", err)
		return
	}
	if len(classes)+len(unread) == 0 {
		r.add(Skipped, "", "Make one, with a NodePool: deploy/examples/general-purpose.yaml.", "there is no EC2NodeClass yet")
		return
	}
	if noAccount(cfg, r) {
		return
	}
	api := ec2.NewFromConfig(*cfg.AWS)
	for _, name := range slices.Sorted(maps.Keys(unread)) {
		r.add(Failed, name, "Look at the object: a field has a value that it cannot have.", "read EC2NodeClass: %v", unread[name])
	}
	for _, class := range classes {
		checkNodeClass(ctx, api, class, r)
	}
}

// listNodeClasses returns the EC2NodeClasses by name, and the errors of those that cannot be read.
func listNodeClasses(ctx context.Context, cfg Config) (classes []*awsv1.EC2NodeClass, unread map[string]error, err error) {
	c, err := dynamic.NewForConfig(cfg.Kube)
	if err != nil {
		return nil, nil, err
	}
	list, err := c.Resource(nodeClasses).List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, nil, err
	}
	unread = map[string]error{}
	for _, item := range list.Items {
		class := &awsv1.EC2NodeClass{}
		data, err := item.MarshalJSON()
		if err == nil {
			err = json.Unmarshal(data, class)
		}
		if err != nil {
			unread[item.GetName()] = err
			continue
		}
		classes = append(classes, class)
	}
	slices.SortFunc(classes, func(a, b *awsv1.EC2NodeClass) int { return strings.Compare(a.Name, b.Name) })
	return classes, unread, nil
}

// resolvedByClass is an image and a subnet that an EC2NodeClass has in its status; "" if none has both.
func resolvedByClass(ctx context.Context, cfg Config) (image, subnet string) {
	if cfg.Kube == nil {
		return "", ""
	}
	classes, _, _ := listNodeClasses(ctx, cfg) // checkNodeClasses says why there are none
	for _, class := range classes {
		if s := class.Status; len(s.AMIs) > 0 && len(s.Subnets) > 0 {
			return s.AMIs[0].ID, s.Subnets[0].ID
		}
	}
	return "", ""
}

func checkNodeClass(ctx context.Context, api *ec2.Client, class *awsv1.EC2NodeClass, r *report) {
	before := len(r.results)
	for i, t := range class.Spec.SubnetSelectorTerms {
		out, err := api.DescribeSubnets(ctx, &ec2.DescribeSubnetsInput{Filters: filters(t.Tags, "subnet-id", t.ID, "", "")})
		verdictOnTerm(r, class.Name, fmt.Sprintf("subnetSelectorTerms[%d]", i), "subnet", err, func() int { return len(out.Subnets) })
	}
	for i, t := range class.Spec.SecurityGroupSelectorTerms {
		out, err := api.DescribeSecurityGroups(ctx, &ec2.DescribeSecurityGroupsInput{Filters: filters(t.Tags, "group-id", t.ID, "group-name", t.Name)})
		verdictOnTerm(r, class.Name, fmt.Sprintf("securityGroupSelectorTerms[%d]", i), "security group", err, func() int { return len(out.SecurityGroups) })
	}
	for _, c := range class.Status.Conditions {
		if c.Status == metav1.ConditionFalse {
			r.add(Failed, class.Name, "Do what the message says; docs/runbooks has more.", "condition %s is False: %s", c.Type, strings.TrimSpace(c.Reason+" "+c.Message))
		}
	}
	if len(r.results) == before {
		r.add(OK, class.Name, "", "every term selects subnets and security groups")
	}
}

// verdictOnTerm adds a result if a selector term selects nothing.
func verdictOnTerm(r *report, class, term, what string, err error, count func() int) {
	switch {
	case slices.Contains(refused, codeOf(err)):
		r.add(Skipped, class, "Grant the statement ReadNetworkAndInstances: millctl aws policy.", "%s: the account may not look for a %s", term, what)
	case err != nil:
		r.add(Failed, class, "", "%s: %v", term, err)
	case count() == 0:
		r.add(Failed, class, "Tag a "+what+" so, or correct the term.", "%s selects no %s", term, what)
	}
}

// filters of a selector term; the tag value * means that the key exists.
func filters(tags map[string]string, idFilter, id, nameFilter, name string) (out []ec2types.Filter) {
	for key, value := range tags {
		if value == "*" {
			out = append(out, ec2types.Filter{Name: aws.String("tag-key"), Values: []string{key}})
			continue
		}
		out = append(out, ec2types.Filter{Name: aws.String("tag:" + key), Values: []string{value}})
	}
	if id != "" {
		out = append(out, ec2types.Filter{Name: &idFilter, Values: []string{id}})
	}
	if name != "" {
		out = append(out, ec2types.Filter{Name: &nameFilter, Values: []string{name}})
	}
	return out
}
