package sim

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

// refuse is a client error, status 400.
func refuse(code, format string, args ...any) *Error {
	return &Error{Status: http.StatusBadRequest, Code: code, Message: fmt.Sprintf(format, args...)}
}

func missingParameter(name string) *Error {
	return refuse("MissingParameter", "The request must contain the parameter %s", name)
}

func invalidValue(format string, args ...any) *Error {
	return refuse("InvalidParameterValue", format, args...)
}

// dryRun is how EC2 says that a call with DryRun would have succeeded.
func dryRun() *Error {
	return &Error{Status: http.StatusPreconditionFailed, Code: "DryRunOperation",
		Message: "Request would have succeeded, but DryRun flag is set."}
}

func tokenMismatch() *Error {
	return refuse("IdempotentParameterMismatch",
		"The client token you have provided is associated with a resource that has already been created with different parameters")
}

func requestLimit() *Error {
	return &Error{Status: http.StatusServiceUnavailable, Code: "RequestLimitExceeded", Message: "Request limit exceeded."}
}
