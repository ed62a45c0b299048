package main

import (
	"errors"
	"fmt"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"millwright/deploy/iam"
	"millwright/services/bucket"
)

func awsCommand(t *target) *cobra.Command {
	cmd := &cobra.Command{Use: "aws", Short: "What Millwright needs of an AWS account"}
	cmd.AddCommand(awsPolicyCommand(t))
	return cmd
}

// policyFormats are the outputs of aws policy.
var policyFormats = []string{"json", "cloudformation", "terraform", "table"}

func awsPolicyCommand(t *target) *cobra.Command {
	var a iam.Account
	var service, format string
	cmd := &cobra.Command{
		Use: "policy --cluster-name NAME", Short: "Print the IAM policies that the services need", Args: cobra.NoArgs,
		Long: `Policy prints least-privilege IAM policies for a cluster, and calls nothing.

  json            one policy document: of a service, or of all of them together, as mode embedded needs it
  cloudformation  a template with managed policies; account, region and partition are CloudFormation's unless given
  terraform       a configuration with aws_iam_policy resources, for a file NAME.tf.json
  table           the statements and the calls that need them, in Markdown; needs no cluster

With --archive-dir s3://BUCKET/PREFIX?kmsKey=ARN the statements for an archive in that bucket are among them.`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			cluster, err := cmd.Flags().GetString("cluster-name")
			if err != nil {
				return err
			}
			a.Cluster = cluster
			if err := archiveOf(t.archiveDir, &a); err != nil {
				return fmt.Errorf("aws policy: %w", err)
			}
			text, err := policyText(service, format, a)
			if err != nil {
				return fmt.Errorf("aws policy: %w", err)
			}
			_, err = cmd.OutOrStdout().Write(text)
			return err
		},
	}
	f := cmd.Flags()
	f.StringVar(&service, "service", iam.All, strings.Join(iam.Services, ", ")+", or "+iam.All)
	f.StringVar(&format, "format", "json", strings.Join(policyFormats, ", "))
	f.StringVar(&a.Region, "region", os.Getenv("AWS_REGION"), "AWS region")
	f.StringVar(&a.Partition, "partition", "", "aws, aws-cn, aws-us-gov …; default: the region's")
	f.StringVar(&a.Account, "account-id", "", "AWS account; json needs it")
	f.StringVar(&a.SigningKey, "log-signing-key-arn", "", "ARN of the KMS key that signs the log, if one does")
	f.StringVar(&a.NodeRole, "node-role", "", "name of the nodes' IAM role, with its path; default: KarpenterNodeRole- and the cluster's name")
	f.StringVar(&a.Queue, "interruption-queue", "", "name of the interruption queue; default: the cluster's")
	return cmd
}

// archiveOf takes the bucket of the archive from its location, if it is in one.
func archiveOf(location string, a *iam.Account) error {
	if !bucket.Is(location) {
		return nil
	}
	l, err := bucket.Parse(location)
	if err != nil {
		return fmt.Errorf("--archive-dir: %w", err)
	}
	if a.Bucket, a.KMSKey = l.Bucket, l.KMSKey; l.Prefix != "" {
		a.Prefix = l.Prefix + "/"
	}
	return nil
}

func policyText(service, format string, a iam.Account) ([]byte, error) {
	if format != "table" && a.Cluster == "" {
		return nil, errors.New("--cluster-name is required")
	}
	switch format {
	case "json":
		if a.Account == "" {
			return nil, errors.New("--account-id is required: `aws sts get-caller-identity` says it")
		}
		d, err := iam.Policy(service, a)
		if err != nil {
			return nil, err
		}
		return d.JSON()
	case "cloudformation":
		return iam.CloudFormation(service, a)
	case "terraform":
		return iam.Terraform(service, a)
	case "table":
		return []byte(iam.Table()), nil
	}
	return nil, fmt.Errorf("--format %s: want one of %s", format, strings.Join(policyFormats, ", "))
}
