// Package kubetest holds what the API servers of tests have in common: how they apply a merge patch, and how
// they answer an eviction that they refuse.
package kubetest

import (
	"encoding/json"
	"fmt"
	"net/http"

	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	jsonpatch "gopkg.in/evanphx/json-patch.v4"
)

// Patched returns a copy of the object with the body of a merge patch (RFC 7386) applied. It panics if either
// cannot be encoded.
func Patched[T any](object *T, body map[string]any) *T {
	patched, err := jsonpatch.MergePatch(encoded(object), encoded(body))
	if err != nil {
		panic(fmt.Sprintf("patch %T: %v", object, err))
	}
	var out T
	if err := json.Unmarshal(patched, &out); err != nil {
		panic(fmt.Sprintf("decode patched %T: %v", object, err))
	}
	return &out
}

func encoded(o any) []byte {
	data, err := json.Marshal(o)
	if err != nil {
		panic(fmt.Sprintf("encode %T: %v", o, err))
	}
	return data
}

// EvictionForbidden is the answer to an eviction that a budget forbids.
func EvictionForbidden() error {
	err := apierrors.NewTooManyRequests("Cannot evict pod as it would violate the pod's disruption budget.", 0)
	err.ErrStatus.Details.Causes = append(err.ErrStatus.Details.Causes, metav1.StatusCause{Type: policyv1.DisruptionBudgetCause})
	return err
}

// ManyBudgets is the answer to an eviction of a pod that more than one budget covers.
func ManyBudgets() error {
	return &apierrors.StatusError{ErrStatus: metav1.Status{Status: metav1.StatusFailure, Code: http.StatusInternalServerError,
		Reason: metav1.StatusReasonInternalError, Message: "This pod has more than one PodDisruptionBudget, which the eviction subresource does not support."}}
}
