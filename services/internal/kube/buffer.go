package kube

import (
	"context"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/yaml"

	bufferv1beta1 "millwright/api/autoscaling/v1beta1"
	"millwright/deploy/crds"
)

// UpdateBufferStatus writes the status fields that differ; a concurrent change is a Conflict.
func (c *Client) UpdateBufferStatus(ctx context.Context, before, after *bufferv1beta1.CapacityBuffer) (*bufferv1beta1.CapacityBuffer, error) {
	return c.Buffers.In(before.Namespace).UpdateStatus(ctx, before, after)
}

const (
	crdPath    = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
	bufferCRD  = "capacitybuffers." + bufferv1beta1.Group
	bufferFile = "shared/" + bufferv1beta1.Group + "_capacitybuffers.yaml"
)

// InstallBufferCRD makes the CRD of CapacityBuffers where there is none. One that is there stays as it is,
// whatever it says: the API is shared with other autoscalers.
func (c *Client) InstallBufferCRD(ctx context.Context) error {
	api := c.Core.CoreV1().RESTClient()
	err := api.Get().AbsPath(crdPath, bufferCRD).Do(ctx).Error()
	if !apierrors.IsNotFound(err) {
		return err
	}
	text, err := crds.Shared.ReadFile(bufferFile)
	if err != nil {
		return fmt.Errorf("read CRD: %w", err)
	}
	data, err := yaml.YAMLToJSON(text)
	if err != nil {
		return fmt.Errorf("read CRD: %w", err)
	}
	err = api.Post().AbsPath(crdPath).SetHeader("Content-Type", "application/json").Body(data).Do(ctx).Error()
	if apierrors.IsAlreadyExists(err) {
		return nil
	}
	return err
}
