package v1beta1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"millwright/api/reading"
)

// UnmarshalJSON never fails for a spec that the API server accepted: see CapacityBuffer.Unreadable.
func (o *CapacityBuffer) UnmarshalJSON(data []byte) error {
	type plain CapacityBuffer
	whole := plain{}
	head := struct {
		metav1.TypeMeta   `json:",inline"`
		metav1.ObjectMeta `json:"metadata"`
		Status            CapacityBufferStatus `json:"status"`
	}{}
	unreadable, err := reading.Decode(data, &whole, &head, func() any { return &plain{} })
	if err != nil {
		return err
	}
	if *o = CapacityBuffer(whole); unreadable != "" {
		*o = CapacityBuffer{TypeMeta: head.TypeMeta, ObjectMeta: head.ObjectMeta, Status: head.Status, Unreadable: unreadable}
	}
	return nil
}
