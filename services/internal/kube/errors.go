package kube

import (
	"context"
	"errors"
	"net/http"
	"regexp"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	utilnet "k8s.io/apimachinery/pkg/util/net"
)

// Class of an error of the API server, by what the caller can do about it.
type Class int

const (
	// None: no error.
	None Class = iota
	// NotFound: the object does not exist.
	NotFound
	// Conflict: a precondition (UID, resourceVersion) does not hold. Read again; never repeat as is.
	Conflict
	// AlreadyExists: an object of the name exists.
	AlreadyExists
	// Blocked: an eviction that a disruption budget forbids now, or that more than one budget covers.
	Blocked
	// Transient: repeat later. The call may have taken effect.
	Transient
	// Permanent: repeating the same call cannot help.
	Permanent
)

func (c Class) String() string {
	return [...]string{"none", "not-found", "conflict", "already-exists", "blocked", "transient", "permanent"}[c]
}

// isUnserved reports an answer "not found" that is a page and no Status: nothing is served at this path, by
// an API server whose CustomResourceDefinition is being replaced, or by what a request was sent to in its
// place. It says nothing of the object.
func isUnserved(err error) bool {
	return (apierrors.IsNotFound(err) || apierrors.IsGone(err)) && apierrors.HasStatusCause(err, metav1.CauseTypeUnexpectedServerResponse)
}

// multiplePDBs is the API server's text for an eviction covered by more than one budget, with status 500.
const multiplePDBs = "This pod has more than one PodDisruptionBudget"

// Classify assigns an error to one Class. An error that is not an API status is Transient.
func Classify(err error) Class {
	switch {
	case err == nil:
		return None
	case isUnserved(err):
		return Transient
	case apierrors.IsNotFound(err), apierrors.IsGone(err):
		return NotFound
	case apierrors.IsAlreadyExists(err):
		return AlreadyExists
	case apierrors.IsConflict(err), isForeignUID(err):
		return Conflict
	case IsMultiplePDBs(err), isDisruptionBudget(err):
		return Blocked
	case isTransient(err):
		return Transient
	}
	return Permanent
}

// IsNotFound, IsConflict and IsAlreadyExists abbreviate comparisons of Classify.
func IsNotFound(err error) bool      { return Classify(err) == NotFound }
func IsConflict(err error) bool      { return Classify(err) == Conflict }
func IsAlreadyExists(err error) bool { return Classify(err) == AlreadyExists }

// IsInvalid reports an object that the API server, or a webhook or policy of admission, does not take as it
// is, whoever asks.
func IsInvalid(err error) bool {
	return isDenied(err) || (apierrors.IsInvalid(err) || apierrors.IsBadRequest(err)) && Classify(err) == Permanent
}

// isDenied reports the refusal of a webhook or policy of admission. Its code and reason are whatever that
// says: 400 of a webhook without any, 403 of most, as if a right were missing. A webhook that does not answer
// has refused nothing.
func isDenied(err error) bool {
	var status apierrors.APIStatus
	return errors.As(err, &status) && denied.MatchString(status.Status().Message)
}

// denied is the API server's text for it.
var denied = regexp.MustCompile(`^admission webhook ".*" denied the request|: ValidatingAdmissionPolicy '.*' with binding '.*' denied request`)

// IsWithheld reports that a right is missing, or that a webhook of admission which has to be asked does not
// answer: the same may be taken later, once somebody has mended that.
func IsWithheld(err error) bool {
	return apierrors.IsForbidden(err) && !isDenied(err) || apierrors.IsInternalError(err) && strings.Contains(err.Error(), "failed calling webhook")
}

// IsMultiplePDBs reports an eviction refused because more than one budget selects the pod.
func IsMultiplePDBs(err error) bool {
	return apierrors.IsInternalError(err) && strings.Contains(err.Error(), multiplePDBs)
}

// isDisruptionBudget distinguishes a refused eviction from the API server's own throttling: both are 429.
func isDisruptionBudget(err error) bool {
	return apierrors.IsTooManyRequests(err) && apierrors.HasStatusCause(err, "DisruptionBudget")
}

// isForeignUID reports a patch refused because the object has another UID than the patch asks for: the API
// server calls that an invalid change of an immutable field.
func isForeignUID(err error) bool {
	var status apierrors.APIStatus
	if !errors.As(err, &status) || !apierrors.IsInvalid(err) || status.Status().Details == nil {
		return false
	}
	for _, c := range status.Status().Details.Causes {
		if c.Field == "metadata.uid" {
			return true
		}
	}
	return false
}

func isTransient(err error) bool {
	var status apierrors.APIStatus
	if !errors.As(err, &status) {
		return true // no answer: connection, timeout or cancelled
	}
	s := status.Status()
	return s.Code >= http.StatusInternalServerError || s.Code == http.StatusTooManyRequests ||
		s.Code == http.StatusRequestTimeout || s.Reason == metav1.StatusReasonServerTimeout ||
		errors.Is(err, context.DeadlineExceeded) || utilnet.IsConnectionReset(err)
}
