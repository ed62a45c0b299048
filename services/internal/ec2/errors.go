package ec2

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws/ratelimit"
	"github.com/aws/smithy-go"
	smithyhttp "github.com/aws/smithy-go/transport/http"

	"millwright/planner/ledger"
)

// Class says what a caller may do about an error. Its text is what LaunchFailed records hold.
type Class string

const (
	// Permanent: the same call will fail again until somebody changes something.
	Permanent Class = "permanent"
	// Transient: nothing happened; the same call may succeed later.
	Transient Class = "transient"
	// NoCapacity: EC2 has no capacity for any of the offerings that were asked for now.
	NoCapacity Class = "no-capacity"
	// NotReady: the NodeClass cannot be launched from yet.
	NotReady Class = "not-ready"
	// NotFound: what the call names does not exist.
	NotFound Class = "not-found"
	// UnknownOutcome: a changing call may or may not have happened. Repeat the same bytes with the same
	// token.
	UnknownOutcome Class = "unknown-outcome"
	// ParameterMismatch: the token was used before with other parameters.
	ParameterMismatch Class = "parameter-mismatch"
	// DryRunOK: the call would have succeeded.
	DryRunOK Class = "dry-run-ok"
)

// CallError is the error of one AWS call. Mutating calls that end without an answer have an unknown outcome.
type CallError struct {
	// Action as in IAM policies: ec2:CreateFleet.
	Action   string
	Mutating bool
	Err      error
}

func (e *CallError) Error() string { return fmt.Sprintf("call %s: %v", e.Action, e.Err) }

func (e *CallError) Unwrap() error { return e.Err }

// Failure is why a launch failed, in the words that users see (reference: ec2 §4.6).
type Failure struct {
	Class Class
	// Reason and Message go to the NodeClaim's Launched condition.
	Reason  string
	Message string
	// Unavailable offerings, to be marked in the Ledger.
	Unavailable []ledger.FailedOffering
	// Err is the cause, if there is one.
	Err error
}

func (f *Failure) Error() string { return f.Reason + ": " + f.Message }

func (f *Failure) Unwrap() error { return f.Err }

// noCapacityCodes mean that an offering is not available now (ec2 §4.6).
var noCapacityCodes = []string{
	"InsufficientInstanceCapacity", "MaxSpotInstanceCountExceeded", "VcpuLimitExceeded", "UnfulfillableCapacity", "Unsupported",
	codeNoAddresses, "ReservationCapacityExceeded", "MaxFleetCountExceeded", codeSpotRoleForbidden,
}

const (
	codeSpotRoleForbidden = "AuthFailure.ServiceLinkedRoleCreationNotPermitted"
	codeNoAddresses       = "InsufficientFreeAddressesInSubnet"
	codeMalformedID       = "InvalidInstanceID.Malformed"
)

var notFoundCodes = []string{
	"InvalidInstanceID.NotFound", "InvalidLaunchTemplateName.NotFoundException", "InvalidLaunchTemplateId.NotFound",
	"InvalidLaunchTemplateId.NotFoundException", "InvalidLaunchTemplateId.VersionNotFound", "QueueDoesNotExist", "NoSuchEntity",
	"NoSuchEntityException", "InvalidCapacityReservationId.NotFound", "InvalidPlacementGroup.Unknown", "ParameterNotFound", "ResourceNotFoundException",
}

// errNoTemplate: EC2 answered a look-up by name with an empty list.
var errNoTemplate = errors.New("no launch template of this name")

var throttlingCodes = []string{
	"RequestLimitExceeded", "Throttling", "ThrottlingException", "ThrottledException", "RequestThrottled", "RequestThrottledException",
	"TooManyRequestsException", "EC2ThrottledException", "SlowDown", "BandwidthLimitExceeded", "LimitExceededException",
	"PriorRequestNotComplete",
}

var serverCodes = []string{"InternalError", "InternalFailure", "ServiceUnavailable", "Unavailable", "ServerInternal", "InternalServerError"}

// Classify classifies any error of this package. It returns "" for nil and Permanent for what it does not
// know.
func Classify(err error) Class {
	if err == nil {
		return ""
	}
	if f, ok := errors.AsType[*Failure](err); ok {
		return f.Class
	}
	call, _ := errors.AsType[*CallError](err)
	mutating := call != nil && call.Mutating
	switch {
	case errors.Is(err, errNoTemplate):
		return NotFound
	case lackOfCredentials(err) != nil:
		return Transient // not sent
	case errors.Is(err, errAfterAnother):
		return unanswered(mutating)
	case errors.Is(err, errBudget):
		return Transient // not sent
	case errors.Is(err, errEndless):
		return Transient // only reading calls have pages
	}
	if api, ok := errors.AsType[smithy.APIError](err); ok {
		return classifyAnswer(api.ErrorCode(), api.ErrorMessage(), statusOf(err), mutating)
	}
	return classifySilence(err, statusOf(err), mutating)
}

// classifyAnswer classifies an error that AWS answered with.
func classifyAnswer(code, message string, status int, mutating bool) Class {
	switch {
	case code == "DryRunOperation":
		return DryRunOK
	case code == "IdempotentParameterMismatch":
		return ParameterMismatch
	case slices.Contains(noCapacityCodes, code):
		return NoCapacity
	case slices.Contains(notFoundCodes, code):
		return NotFound
	case slices.Contains(throttlingCodes, code) || status == http.StatusTooManyRequests:
		return Transient
	case code == "InvalidParameterValue" && strings.Contains(message, "Invalid IAM Instance Profile"):
		return Transient // a new profile takes about ten seconds to reach EC2
	case slices.Contains(serverCodes, code) || status >= 500:
		return unanswered(mutating)
	}
	return Permanent
}

// classifySilence classifies an error without a readable answer.
func classifySilence(err error, status int, mutating bool) Class {
	if _, limited := errors.AsType[ratelimit.QuotaExceededError](err); limited {
		return unanswered(mutating) // the SDK's retry quota is spent; an earlier attempt may have arrived
	}
	op, _ := errors.AsType[*net.OpError](err)
	dns, _ := errors.AsType[*net.DNSError](err)
	switch {
	case dns != nil || op != nil && op.Op == "dial":
		return Transient // never left this machine
	case status >= 500, op != nil, isTimeout(err), errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF), errors.Is(err, net.ErrClosed):
		return unanswered(mutating)
	}
	if _, sent := errors.AsType[*smithyhttp.RequestSendError](err); sent {
		return unanswered(mutating)
	}
	if _, unread := errors.AsType[*smithy.DeserializationError](err); unread {
		return unanswered(mutating)
	}
	return Permanent
}

func unanswered(mutating bool) Class {
	if mutating {
		return UnknownOutcome
	}
	return Transient
}

func isTimeout(err error) bool {
	if errors.Is(err, context.DeadlineExceeded) || errors.Is(err, context.Canceled) {
		return true
	}
	n, ok := errors.AsType[net.Error](err)
	return ok && n.Timeout()
}

// isThrottling reports that AWS throttled a call.
func isThrottling(err error) bool {
	return isThrottlingCode(Code(err)) || statusOf(err) == http.StatusTooManyRequests
}

func isThrottlingCode(code string) bool { return slices.Contains(throttlingCodes, code) }

// IsTemplateLimit reports that the account may have no more launch templates. EC2's list of error codes names
// none for that, so every code of a limit or quota counts that is not one for the rate of calls, and one of
// those too if its message mentions launch templates.
func IsTemplateLimit(err error) bool {
	call, ok := errors.AsType[*CallError](err)
	api, answered := errors.AsType[smithy.APIError](err)
	if !ok || !answered || call.Action != "ec2:CreateLaunchTemplate" {
		return false
	}
	code, message := strings.ToLower(api.ErrorCode()), strings.ToLower(api.ErrorMessage())
	limit := strings.Contains(code, "limit") || strings.Contains(code, "quota")
	spoken := strings.Contains(message, "launch template") && (strings.Contains(message, "limit") || strings.Contains(message, "maximum") || strings.Contains(message, "quota"))
	return spoken || limit && !isThrottling(err)
}

// statusOf returns the HTTP status of the last answer, or 0.
func statusOf(err error) int {
	if r, ok := errors.AsType[*smithyhttp.ResponseError](err); ok {
		return r.HTTPStatusCode()
	}
	return 0
}

// Code returns AWS's error code, or "".
func Code(err error) string {
	if api, ok := errors.AsType[smithy.APIError](err); ok {
		return api.ErrorCode()
	}
	return ""
}

// IsRefusal reports that AWS has answered, and will answer so again until somebody changes something, or that
// there were no credentials to ask with.
func IsRefusal(err error) bool {
	return lackOfCredentials(err) != nil || Code(err) != "" && Classify(err) == Permanent
}

// IsNotFound reports that what the call names does not exist.
func IsNotFound(err error) bool { return Classify(err) == NotFound }
