package remote

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/intstr"

	"millwright/services/console/trust"
)

// Bounds of what is looked at.
const (
	servicesMax = 50
	podsMax     = 200
	triedMax    = 3
)

// errNoPod: none of the console's pods is ready.
var errNoPod = errors.New("none of its pods is ready")

// service is the console's Service.
type service struct {
	namespace, name string
	selector        map[string]string
	port            intstr.IntOrString
}

// place is where a pod of the console listens.
type place struct {
	namespace, pod string
	port           int32
}

// find looks for the console's Service.
func (c *Cluster) find(ctx context.Context) (service, error) {
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	list, err := c.Core.CoreV1().Services(c.settings.InstalledIn).List(ctx, metav1.ListOptions{LabelSelector: trust.ServiceLabel, Limit: servicesMax})
	switch {
	case apierrors.IsForbidden(err) && c.settings.InstalledIn == "":
		return service{}, fmt.Errorf("%w: you may not list the Services of all namespaces: name that of Millwright with --console-namespace: %w", ErrUnreachable, err)
	case err != nil:
		return service{}, fmt.Errorf("%w: find its Service: %w", ErrUnreachable, err)
	}
	var found []service
	for i := range list.Items {
		s := &list.Items[i]
		for _, p := range s.Spec.Ports {
			if p.Name == trust.PortName && len(s.Spec.Selector) > 0 {
				found = append(found, service{namespace: s.Namespace, name: s.Name, selector: s.Spec.Selector, port: p.TargetPort})
			}
		}
	}
	switch len(found) {
	case 1:
		return found[0], nil
	case 0:
		where := "in no namespace"
		if c.settings.InstalledIn != "" {
			where = "not in namespace " + c.settings.InstalledIn
		}
		return service{}, fmt.Errorf("%w: a Service with the label %s is %s; the chart makes it with console.enabled, from this version on", ErrUnreachable, trust.ServiceLabel, where)
	}
	var names []string
	for _, f := range found {
		names = append(names, f.namespace+"/"+f.name)
	}
	return service{}, fmt.Errorf("%w: there are several: %s: choose by --console-namespace", ErrUnreachable, strings.Join(names, ", "))
}

// pods returns where ready pods of the console listen, those that started last first.
func (c *Cluster) pods(ctx context.Context, s service) ([]place, error) {
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	list, err := c.Core.CoreV1().Pods(s.namespace).List(ctx, metav1.ListOptions{LabelSelector: labels.SelectorFromSet(s.selector).String(), Limit: podsMax})
	if err != nil {
		return nil, fmt.Errorf("find the console's pods: %w", err)
	}
	pods := slices.DeleteFunc(list.Items, func(p corev1.Pod) bool { return p.DeletionTimestamp != nil || !ready(&p) })
	slices.SortFunc(pods, func(a, b corev1.Pod) int {
		return cmp.Or(b.CreationTimestamp.Compare(a.CreationTimestamp.Time), cmp.Compare(a.Name, b.Name))
	})
	var out []place
	for i := range pods {
		if port := portOf(&pods[i], s.port); port > 0 && len(out) < triedMax {
			out = append(out, place{namespace: s.namespace, pod: pods[i].Name, port: port})
		}
	}
	if len(out) == 0 {
		return nil, fmt.Errorf("%w: kubectl get pods -n %s -l %s", errNoPod, s.namespace, labels.SelectorFromSet(s.selector))
	}
	return out, nil
}

func ready(p *corev1.Pod) bool {
	return slices.ContainsFunc(p.Status.Conditions, func(c corev1.PodCondition) bool { return c.Type == corev1.PodReady && c.Status == corev1.ConditionTrue })
}

// portOf is the number of a Service's port in a pod; 0 if the pod does not have it.
func portOf(p *corev1.Pod, target intstr.IntOrString) int32 {
	if target.Type == intstr.Int {
		return target.IntVal
	}
	for _, container := range p.Spec.Containers {
		for _, port := range container.Ports {
			if port.Name == target.StrVal {
				return port.ContainerPort
			}
		}
	}
	return 0
}
