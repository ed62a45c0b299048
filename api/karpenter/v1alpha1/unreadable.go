package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"millwright/api/reading"
)

// UnmarshalJSON never fails for a spec that the API server accepted: see NodeOverlay.Unreadable.
func (o *NodeOverlay) UnmarshalJSON(data []byte) error {
	type plain NodeOverlay
	whole := plain{}
	head := struct {
		metav1.TypeMeta   `json:",inline"`
		metav1.ObjectMeta `json:"metadata"`
		Status            NodeOverlayStatus `json:"status"`
	}{}
	unreadable, err := reading.Decode(data, &whole, &head, func() any { return &plain{} })
	if err != nil {
		return err
	}
	if *o = NodeOverlay(whole); unreadable != "" {
		*o = NodeOverlay{TypeMeta: head.TypeMeta, ObjectMeta: head.ObjectMeta, Status: head.Status, Unreadable: unreadable}
	}
	return nil
}
