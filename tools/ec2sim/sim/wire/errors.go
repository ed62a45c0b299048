package wire

import (
	"fmt"
	"net/http"
)

// Error is an answer in AWS's terms: an HTTP status, a code and a message.
type Error struct {
	Status  int
	Code    string
	Message string
}

func (e *Error) Error() string { return e.Code + ": " + e.Message }

// Refuse is a client error, status 400.
func Refuse(code, format string, args ...any) *Error {
	return &Error{Status: http.StatusBadRequest, Code: code, Message: fmt.Sprintf(format, args...)}
}

// MissingParameter refuses a call without a parameter that it needs.
func MissingParameter(name string) *Error {
	return Refuse("MissingParameter", "The request must contain the parameter %s", name)
}

// InvalidValue refuses a call for the value of a parameter.
func InvalidValue(format string, args ...any) *Error {
	return Refuse("InvalidParameterValue", format, args...)
}

// DryRun is how EC2 says that a call with DryRun would have succeeded.
func DryRun() *Error {
	return &Error{Status: http.StatusPreconditionFailed, Code: "DryRunOperation",
		Message: "Request would have succeeded, but DryRun flag is set."}
}

// TokenMismatch refuses a client token that came with other parameters before.
func TokenMismatch() *Error {
	return Refuse("IdempotentParameterMismatch",
		"The client token you have provided is associated with a resource that has already been created with different parameters")
}

// RequestLimit throttles a call.
func RequestLimit() *Error {
	return &Error{Status: http.StatusServiceUnavailable, Code: "RequestLimitExceeded", Message: "Request limit exceeded."}
}
