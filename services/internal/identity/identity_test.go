package identity

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	karpv1 "millwright/api/karpenter/v1"
)

type claims struct {
	records map[string]string // by name
	err     error
}

func (c claims) ListNodeClaims(context.Context) ([]*karpv1.NodeClaim, error) {
	var list []*karpv1.NodeClaim
	for name, record := range c.records {
		list = append(list, &karpv1.NodeClaim{ObjectMeta: metav1.ObjectMeta{Name: name, Annotations: map[string]string{karpv1.RecordAnnotationKey: record}}})
	}
	slices.SortFunc(list, func(a, b *karpv1.NodeClaim) int { return strings.Compare(a.Name, b.Name) })
	return list, c.err
}

func TestCheck(t *testing.T) {
	gone := errors.New("connection refused")
	cases := map[string]struct {
		claims  claims
		adopted string
		adopt   bool
		want    []string
		err     error
		says    []string
	}{
		"no nodeclaims at all":                      {},
		"a cluster without the CRD":                 {claims: claims{err: apierrors.NewNotFound(schema.GroupResource{}, "")}},
		"only our own":                              {claims: claims{records: map[string]string{"a": "own/7"}}},
		"karpenter's and hand-made ones bear none":  {claims: claims{records: map[string]string{"a": "", "b": "what?"}}},
		"another log's":                             {claims: claims{records: map[string]string{"a": "other/7", "b": "own/8"}}, err: ErrForeign, says: []string{"log other: nodeclaims a", "--adopt", "This log is own"}},
		"another log's, by a person's word":         {claims: claims{records: map[string]string{"a": "other/7", "b": "more/8"}}, adopt: true, want: []string{"more", "other"}},
		"another log's, adopted before":             {claims: claims{records: map[string]string{"a": "other/7"}}, adopted: "other"},
		"a third log's, though another was adopted": {claims: claims{records: map[string]string{"a": "other/7", "b": "more/8"}}, adopted: "other", err: ErrForeign, says: []string{"log more: nodeclaims b"}},
		"many are named in part": {claims: claims{records: map[string]string{"a": "x/1", "b": "x/1", "c": "x/1", "d": "x/1", "e": "x/1", "f": "x/1", "g": "x/1"}},
			err: ErrForeign, says: []string{"a, b, c, d, e and 2 more"}},
		"an API server that does not answer": {claims: claims{err: gone}, err: gone},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			got, err := Check(t.Context(), c.claims, "own", func(id string) bool { return id == c.adopted }, c.adopt)
			if !errors.Is(err, c.err) || !slices.Equal(got, c.want) {
				t.Fatalf("got %v, %v", got, err)
			}
			for _, text := range c.says {
				if !strings.Contains(err.Error(), text) {
					t.Errorf("%q does not say %q", err, text)
				}
			}
		})
	}
}
