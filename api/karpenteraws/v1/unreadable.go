package v1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"millwright/api/reading"
)

// UnmarshalJSON never fails for a spec that the API server accepted: see EC2NodeClass.Unreadable.
func (c *EC2NodeClass) UnmarshalJSON(data []byte) error {
	type plain EC2NodeClass
	whole := plain{}
	head := struct {
		metav1.TypeMeta   `json:",inline"`
		metav1.ObjectMeta `json:"metadata"`
		Status            EC2NodeClassStatus `json:"status"`
	}{}
	unreadable, err := reading.Decode(data, &whole, &head, func() any { return &plain{} })
	if err != nil {
		return err
	}
	if *c = EC2NodeClass(whole); unreadable != "" {
		*c = EC2NodeClass{TypeMeta: head.TypeMeta, ObjectMeta: head.ObjectMeta, Status: head.Status, Unreadable: unreadable}
	}
	return nil
}
