package remote

import (
	"context"
	"fmt"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/metadata"
)

// namesMax bounds the names that are offered.
const namesMax = 500

// resources of the kinds whose names can be listed, by the subject of their records.
var resources = map[string]schema.GroupVersionResource{
	"pod":            {Version: "v1", Resource: "pods"},
	"node":           {Version: "v1", Resource: "nodes"},
	"claim":          {Group: "karpenter.sh", Version: "v1", Resource: "nodeclaims"},
	"pool":           {Group: "karpenter.sh", Version: "v1", Resource: "nodepools"},
	"nodeclass":      {Group: "karpenter.k8s.aws", Version: "v1", Resource: "ec2nodeclasses"},
	"capacitybuffer": {Group: "autoscaling.x-k8s.io", Version: "v1beta1", Resource: "capacitybuffers"},
}

// Names are those of the objects of a kind that begin as typed, at most namesMax. What has a namespace is
// looked for in the one that was typed, or in that of the context.
func (c *Cluster) Names(ctx context.Context, kind, typed string) ([]string, error) {
	resource, known := resources[kind]
	if !known {
		return nil, nil
	}
	client, err := metadata.NewForConfig(c.Config)
	if err != nil {
		return nil, fmt.Errorf("list %s: %w", resource.Resource, err)
	}
	prefix := ""
	var from metadata.ResourceInterface = client.Resource(resource)
	if kind == "pod" || kind == "capacitybuffer" {
		namespace := c.Namespace
		if before, after, qualified := strings.Cut(typed, "/"); qualified {
			namespace, typed, prefix = before, after, before+"/"
		}
		from = client.Resource(resource).Namespace(namespace)
	}
	list, err := from.List(ctx, metav1.ListOptions{Limit: namesMax})
	if err != nil {
		return nil, fmt.Errorf("list %s: %w", resource.Resource, err)
	}
	var names []string
	for i := range list.Items {
		if strings.HasPrefix(list.Items[i].Name, typed) {
			names = append(names, prefix+list.Items[i].Name)
		}
	}
	return names, nil
}
