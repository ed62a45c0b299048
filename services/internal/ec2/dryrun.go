package ec2

import (
	"context"
	"slices"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	awsec2 "github.com/aws/aws-sdk-go-v2/service/ec2"
)

// DryRunFleet asks whether the fleet could be created; class DryRunOK says yes. in is not changed.
func (c *Client) DryRunFleet(ctx context.Context, in *awsec2.CreateFleetInput) error {
	dry := *in
	dry.DryRun = aws.Bool(true)
	_, err := read(ctx, c, "ec2:CreateFleet", with(c.ec2.CreateFleet, &dry))
	return err
}

// DryRunInstances asks whether the instances could be run; class DryRunOK says yes. in is not changed.
func (c *Client) DryRunInstances(ctx context.Context, in *awsec2.RunInstancesInput) error {
	dry := *in
	dry.DryRun = aws.Bool(true)
	_, err := read(ctx, c, "ec2:RunInstances", with(c.ec2.RunInstances, &dry))
	return err
}

// IsUnauthorized reports that AWS refused the call for lack of permission.
func IsUnauthorized(err error) bool {
	return slices.Contains([]string{"UnauthorizedOperation", "AccessDenied", "AccessDeniedException"}, Code(err))
}

// unauthenticatedCodes are answers to a call of which AWS does not believe who makes it, or that it is made
// now. It has not looked at permissions then.
var unauthenticatedCodes = []string{
	"ExpiredToken", "ExpiredTokenException", "RequestExpired", "RequestTimeTooSkewed", "InvalidClientTokenId", "UnrecognizedClientException", "InvalidAccessKeyId",
	"SignatureDoesNotMatch", "InvalidSignatureException", "IncompleteSignature", "MissingAuthenticationToken", "OptInRequired", "Blocked",
}

// IsUnauthenticated reports that AWS refused the caller, whatever was asked for: credentials that have
// expired, or that the account does not have in this Region.
func IsUnauthenticated(err error) bool {
	api, ok := answerOf(err)
	return ok && (slices.Contains(unauthenticatedCodes, api.ErrorCode()) || api.ErrorCode() == "AuthFailure" && strings.Contains(api.ErrorMessage(), "validate"))
}

// IsProfileUnknown reports that EC2 does not know the instance profile: it does not exist, or has existed for
// too short a time.
func IsProfileUnknown(err error) bool {
	return err != nil && Code(err) == "InvalidParameterValue" && Classify(err) == Transient
}
