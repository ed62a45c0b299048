// Package identity finds out whose NodeClaims a cluster has: each one that Millwright makes names, in the
// annotation millwright.sh/record, the event log that planned it. A log that finds claims of another one has
// replaced a lost log, or belongs to another installation; only a person can know which.
//
// Test with a list of NodeClaims.
package identity

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	karpv1 "millwright/api/karpenter/v1"
	"millwright/planner/ledger"
	"millwright/services/internal/kube"
)

// ErrForeign: NodeClaims name a log that this one has not adopted. Retrying does not help; --adopt does.
var ErrForeign = errors.New("nodeclaims of another event log")

// namedMax bounds the NodeClaims an error names.
const namedMax = 5

// Claims lists NodeClaims from the API server. kube.Client is one.
type Claims interface {
	ListNodeClaims(ctx context.Context) ([]*karpv1.NodeClaim, error)
}

// Foreign returns, by log-id, the names of the NodeClaims that name another log than own. A cluster without
// the CRD has none.
func Foreign(ctx context.Context, claims Claims, own string) (map[string][]string, error) {
	list, err := claims.ListNodeClaims(ctx)
	if kube.IsNotFound(err) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	foreign := map[string][]string{}
	for _, o := range list {
		if id, _, ok := ledger.ParseRecordAnnotation(o.Annotations[karpv1.RecordAnnotationKey]); ok && id != own {
			foreign[id] = append(foreign[id], o.Name)
		}
	}
	return foreign, nil
}

// Check returns the logs to be adopted, sorted: those that NodeClaims name and this log has not adopted yet.
// Without an operator's consent (adopt) they are ErrForeign instead.
func Check(ctx context.Context, claims Claims, own string, adopted func(logID string) bool, adopt bool) ([]string, error) {
	foreign, err := Foreign(ctx, claims, own)
	if err != nil {
		return nil, err
	}
	maps.DeleteFunc(foreign, func(id string, _ []string) bool { return adopted(id) })
	ids := slices.Sorted(maps.Keys(foreign))
	if adopt || len(ids) == 0 {
		return ids, nil
	}
	var texts []string
	for _, id := range ids {
		names := foreign[id]
		text := strings.Join(names[:min(len(names), namedMax)], ", ")
		if more := len(names) - namedMax; more > 0 {
			text += fmt.Sprintf(" and %d more", more)
		}
		texts = append(texts, fmt.Sprintf("log %s: nodeclaims %s", id, text))
	}
	return nil, fmt.Errorf("%w (annotation %s): %s. This log is %s. Is it the right data directory, the right etcd? If the other log is lost, "+
		"start once with --adopt (ADOPT=true): instances are kept, claims without one are looked up by tag and never launched",
		ErrForeign, karpv1.RecordAnnotationKey, strings.Join(texts, "; "), own)
}
