package preflight

import (
	"context"
	"errors"
	"slices"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/eks"
	"github.com/aws/aws-sdk-go-v2/service/sqs"
	"github.com/aws/aws-sdk-go-v2/service/sts"
	"github.com/aws/smithy-go"
)

const awsRemedy = "Give credentials of the services' role and a region, as for any AWS SDK; in a pod of Millwright they are there."

// noAccount says why nothing can be asked in AWS.
func noAccount(cfg Config, r *report) bool {
	if cfg.AWS != nil {
		return false
	}
	r.add(Skipped, "", awsRemedy, "no AWS account is known: %v", cfg.AWSError)
	return true
}

// codeOf an answer of AWS; "" if there was none.
func codeOf(err error) string {
	var api smithy.APIError
	if errors.As(err, &api) {
		return api.ErrorCode()
	}
	return ""
}

// remedyFor credentials that AWS does not take: a region that is not enabled for the account answers in the
// same way as to wrong ones.
func remedyFor(err error) string {
	if slices.Contains([]string{"OptInRequired", "InvalidClientTokenId", "UnrecognizedClientException", "AuthFailure"}, codeOf(err)) {
		return "Enable the region for the account (aws account enable-region), or correct the region or the credentials."
	}
	return awsRemedy
}

func checkAccount(ctx context.Context, cfg Config, r *report) {
	if noAccount(cfg, r) {
		return
	}
	identity, err := sts.NewFromConfig(*cfg.AWS).GetCallerIdentity(ctx, &sts.GetCallerIdentityInput{})
	if err != nil {
		r.add(Failed, "", remedyFor(err), "ask who calls: %v", err)
		return
	}
	r.add(OK, "", "", "account %s in %s, as %s", aws.ToString(identity.Account), cfg.AWS.Region, aws.ToString(identity.Arn))
	if cfg.Cluster == "" {
		r.add(Skipped, "", "Name it by --cluster-name.", "the name of the cluster is not known")
		return
	}
	object := "EKS cluster " + cfg.Cluster
	_, err = eks.NewFromConfig(*cfg.AWS).DescribeCluster(ctx, &eks.DescribeClusterInput{Name: &cfg.Cluster})
	switch {
	case codeOf(err) == "ResourceNotFoundException":
		r.add(Warning, object, "Look at the name and the region; elsewhere than on EKS, set settings.clusterEndpoint and clusterCABundle.", "does not exist in %s", cfg.AWS.Region)
	case err != nil:
		r.add(Skipped, object, "", "%v", err)
	default:
		r.add(OK, object, "", "exists")
	}
}

func checkQueue(ctx context.Context, cfg Config, r *report) {
	if cfg.Queue == "" {
		r.add(Warning, "", "Make a queue with rules of EventBridge and set settings.interruptionQueue; name it here by --interruption-queue.",
			"no interruption queue is named: spot interruptions and scheduled maintenance come as a surprise")
		return
	}
	if noAccount(cfg, r) {
		return
	}
	_, err := sqs.NewFromConfig(*cfg.AWS).GetQueueUrl(ctx, &sqs.GetQueueUrlInput{QueueName: &cfg.Queue})
	switch code := codeOf(err); {
	case code == "AWS.SimpleQueueService.NonExistentQueue" || code == "QueueDoesNotExist":
		r.add(Failed, cfg.Queue, "Make it, or correct the name in settings.interruptionQueue.", "there is no such queue in %s", cfg.AWS.Region)
	case err != nil:
		r.add(Failed, cfg.Queue, "Grant the statement ReadQueue: docs/aws-policies.md.", "%v", err)
	default:
		r.add(OK, cfg.Queue, "", "the interruption queue exists")
	}
}
