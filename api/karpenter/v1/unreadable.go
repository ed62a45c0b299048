package v1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"millwright/api/reading"
)

// UnmarshalJSON never fails for a spec that the API server accepted: see NodePool.Unreadable.
func (p *NodePool) UnmarshalJSON(data []byte) error {
	type plain NodePool
	whole := plain{}
	head := struct {
		metav1.TypeMeta   `json:",inline"`
		metav1.ObjectMeta `json:"metadata"`
		Status            NodePoolStatus `json:"status"`
	}{}
	unreadable, err := reading.Decode(data, &whole, &head, func() any { return &plain{} })
	if err != nil {
		return err
	}
	if *p = NodePool(whole); unreadable != "" {
		*p = NodePool{TypeMeta: head.TypeMeta, ObjectMeta: head.ObjectMeta, Status: head.Status, Unreadable: unreadable}
	}
	return nil
}

// UnmarshalJSON never fails for a spec that the API server accepted: see NodeClaim.Unreadable.
func (c *NodeClaim) UnmarshalJSON(data []byte) error {
	type plain NodeClaim
	whole := plain{}
	head := struct {
		metav1.TypeMeta   `json:",inline"`
		metav1.ObjectMeta `json:"metadata"`
		Status            NodeClaimStatus `json:"status"`
	}{}
	unreadable, err := reading.Decode(data, &whole, &head, func() any { return &plain{} })
	if err != nil {
		return err
	}
	if *c = NodeClaim(whole); unreadable != "" {
		*c = NodeClaim{TypeMeta: head.TypeMeta, ObjectMeta: head.ObjectMeta, Status: head.Status, Unreadable: unreadable}
	}
	return nil
}
