package iam

import (
	"fmt"
	"slices"
	"strings"
)

// policies of the service asked for, or of all that call AWS.
func policies(service string, a Account) ([]string, error) {
	switch names := namesOf(service, a); {
	case len(names) > 0:
		return names, nil
	case slices.Contains(Services, service):
		return nil, fmt.Errorf("%s calls nothing in AWS: it needs no policy", service)
	}
	return nil, fmt.Errorf("no service is named %q: want %s or %s", service, strings.Join(Services, ", "), All)
}

// policyName is within the 128 letters that IAM allows, for each name that EKS allows.
func policyName(policy string, a Account) string { return "millwright-" + a.Cluster + "-" + policy }

// CloudFormation is a template with the managed policies of a service, or of all that call AWS. What is empty
// in a is left to CloudFormation, which knows partition, region and account. Outputs hold the policies' ARNs.
func CloudFormation(service string, a Account) ([]byte, error) {
	names, err := policies(service, a)
	if err != nil {
		return nil, err
	}
	a.Partition, a.Region, a.Account = or(a.Partition, "${AWS::Partition}"), or(a.Region, "${AWS::Region}"), or(a.Account, "${AWS::AccountId}")
	resources, outputs := map[string]any{}, map[string]any{}
	for _, name := range names {
		d, err := policy([]string{name}, a)
		if err != nil {
			return nil, err
		}
		text, err := encode(d, "")
		if err != nil {
			return nil, err
		}
		id := "Millwright" + strings.ToUpper(name[:1]) + name[1:] + "Policy"
		resources[id] = map[string]any{"Type": "AWS::IAM::ManagedPolicy", "Properties": map[string]any{
			"ManagedPolicyName": policyName(name, a), "PolicyDocument": map[string]any{"Fn::Sub": strings.TrimSpace(string(text))},
		}}
		outputs[id] = map[string]any{"Value": map[string]string{"Ref": id}}
	}
	return encode(map[string]any{
		"AWSTemplateFormatVersion": "2010-09-09", "Description": "What Millwright may do for cluster " + a.Cluster,
		"Resources": resources, "Outputs": outputs,
	}, "  ")
}

// Terraform is a configuration in Terraform's JSON syntax (save it as NAME.tf.json) with the policies of a
// service, or of all that call AWS. Partition and account are looked up if a does not have them; the region
// must be given.
func Terraform(service string, a Account) ([]byte, error) {
	names, err := policies(service, a)
	if err != nil {
		return nil, err
	}
	data := map[string]any{}
	if a.Account == "" {
		a.Account = "${data.aws_caller_identity.millwright.account_id}"
		data["aws_caller_identity"] = map[string]any{"millwright": map[string]any{}}
	}
	if a.Partition == "" {
		a.Partition = "${data.aws_partition.millwright.partition}"
		data["aws_partition"] = map[string]any{"millwright": map[string]any{}}
	}
	made, outputs := map[string]any{}, map[string]any{}
	for _, name := range names {
		d, err := policy([]string{name}, a)
		if err != nil {
			return nil, err
		}
		text, err := encode(d, "")
		if err != nil {
			return nil, err
		}
		id := "millwright_" + name
		made[id] = map[string]string{"name": policyName(name, a), "policy": strings.TrimSpace(string(text))}
		outputs[id+"_policy_arn"] = map[string]string{"value": "${aws_iam_policy." + id + ".arn}"}
	}
	out := map[string]any{"resource": map[string]any{"aws_iam_policy": made}, "output": outputs}
	if len(data) > 0 {
		out["data"] = data
	}
	return encode(out, "  ")
}

func or(value, fallback string) string {
	if value == "" {
		return fallback
	}
	return value
}
