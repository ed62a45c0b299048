package ec2

import (
	"errors"
	"fmt"
	"regexp"
	"strings"

	"github.com/aws/smithy-go"
)

// encodedText is what AWS adds to a refusal, encoded anew each time. It has spaces neither in nor after it.
var encodedText = regexp.MustCompile(`\s*Encoded authorization failure message: \S+`)

// Text is the error of an AWS call as conditions, KubeEvents, records and people see it: as long as the
// reason is the same, so is the text. The id of the request, which is another with each attempt, is in
// err.Error() alone, and so is how an answer could not be decoded.
func Text(err error) string {
	text := err.Error()
	if call, ok := errors.AsType[*CallError](err); ok {
		text = strings.Replace(text, call.Error(), textOf(call.Action, call.Err, call.Error()), 1)
	} else if op, ok := errors.AsType[*smithy.OperationError](err); ok {
		action := strings.ToLower(op.ServiceID) + ":" + op.OperationName
		text = strings.Replace(text, op.Error(), textOf(action, op, op.Error()), 1)
	}
	return encodedText.ReplaceAllString(text, "")
}

// textOf says of a call what AWS answered, or with which status something else did; otherwise if nobody
// answered.
func textOf(action string, err error, otherwise string) string {
	if lack := lackOfCredentials(err); lack != nil {
		return fmt.Sprintf("call %s: %v", action, lack)
	}
	if api, ok := answerOf(err); ok {
		return fmt.Sprintf("call %s: %s: %s%s", action, api.ErrorCode(), api.ErrorMessage(), regionHint(api.ErrorCode(), api.ErrorMessage()))
	}
	if status := statusOf(err); status >= 300 {
		return fmt.Sprintf("call %s: HTTP status %d without an error of AWS", action, status)
	}
	return otherwise
}

// regionHint says what AWS does not: a Region that is disabled for the account, as those are by default that
// one must opt in to, answers as if the credentials were wrong, or the service not subscribed to. "" for
// other answers.
func regionHint(code, message string) string {
	disabled := code == "OptInRequired" || code == "UnrecognizedClientException" || code == "InvalidClientTokenId" || code == "AuthFailure" && strings.Contains(message, "validate")
	if !disabled {
		return ""
	}
	return " (" + regionDisabled + ")"
}

const regionDisabled = "the Region may be disabled for the account, which must opt in to it, or the credentials are wrong"

// codeUnknown is the SDK's, for an answer with neither code nor message.
const codeUnknown = "UnknownError"

// answerOf returns what AWS says is wrong, if it is AWS that answered.
func answerOf(err error) (smithy.APIError, bool) {
	api, ok := errors.AsType[smithy.APIError](err)
	return api, ok && api.ErrorCode() != codeUnknown
}
