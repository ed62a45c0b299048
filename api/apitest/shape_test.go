package apitest_test

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	autoscalingv1 "k8s.io/api/autoscaling/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	karpv1 "millwright/api/karpenter/v1"
	awsv1 "millwright/api/karpenteraws/v1"
)

// at returns what is at a dotted path; nil if there is nothing.
func at(v any, path string) any {
	for _, key := range strings.Split(path, ".") {
		m, ok := v.(map[string]any)
		if !ok {
			return nil
		}
		v = m[key]
	}
	return v
}

func (s *server) path(k kind, rest ...string) string {
	return "/" + strings.Join(append([]string{"apis", k.gvk.Group, k.gvk.Version, k.plural}, rest...), "/")
}

// columns are what `kubectl get` shows: "name=cell" in order, those of -o wide after the bar.
func (s *server) columns(t *testing.T) {
	const ready = "{type: Ready, status: 'True', reason: Ready, message: '', lastTransitionTime: '2024-01-01T00:00:00Z'}"
	const drifted = "{type: Drifted, status: 'True', reason: Drifted, message: '', lastTransitionTime: '2024-01-01T00:00:00Z'}"
	for name, c := range map[string]struct {
		kind                 kind
		patch, status, label string
		want                 string
	}{
		"NodePool": {nodePool, "weight: 7", "{nodes: 2, resources: {cpu: 8, memory: 16Gi}, conditions: [" + ready + "]}", "",
			"NodeClass=default Nodes=2 Ready=True Age | Weight=7 CPU=8 Memory=16Gi"},
		"NodeClaim": {nodeClaim, "", "{nodeName: n1, providerID: 'aws:///a/i-1', imageID: ami-1, conditions: [" + ready + "," + drifted + "]}",
			"{node.kubernetes.io/instance-type: m5.large, karpenter.sh/capacity-type: spot, topology.kubernetes.io/zone: a, karpenter.sh/nodepool: p}",
			"Type=m5.large Capacity=spot Zone=a Node=n1 Ready=True Age | ImageID=ami-1 ID=aws:///a/i-1 NodePool=p NodeClass=default Drifted=True"},
		"NodeOverlay":  {nodeOverlay, "weight: 7", "conditions: [" + ready + "]", "", "Ready=True Age | Weight=7"},
		"EC2NodeClass": {nodeClass, "", "conditions: [" + ready + "]", "", "Ready=True Age | Role=nodes"},
	} {
		t.Run(name, func(t *testing.T) {
			o := object(t, c.kind, c.patch)
			if c.label != "" {
				labels := map[string]string{}
				for k, v := range parse(t, c.label) {
					labels[k] = fmt.Sprint(v)
				}
				o.SetLabels(labels)
			}
			o, err := s.create(t.Context(), c.kind, o)
			check(t, err, "")
			o.Object["status"] = parse(t, c.status)
			_, err = s.dynamic.Resource(c.kind.resource()).UpdateStatus(t.Context(), o, metav1.UpdateOptions{})
			check(t, err, "")
			t.Cleanup(func() {
				_ = s.dynamic.Resource(c.kind.resource()).Delete(context.Background(), o.GetName(), metav1.DeleteOptions{})
			})
			if got := s.table(t, c.kind, o.GetName()); got != c.want {
				t.Errorf("columns\n  %s\nwant\n  %s", got, c.want)
			}
		})
	}
}

func (s *server) table(t *testing.T, k kind, name string) string {
	t.Helper()
	data, err := s.core.CoreV1().RESTClient().Get().AbsPath(s.path(k, name)).
		SetHeader("Accept", "application/json;as=Table;v=v1;g=meta.k8s.io").DoRaw(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	table := &metav1.Table{}
	if err := json.Unmarshal(data, table); err != nil {
		t.Fatal(err)
	}
	var out []string
	for i, c := range table.ColumnDefinitions[1:] {
		if c.Priority == 1 && table.ColumnDefinitions[i].Priority == 0 {
			out = append(out, "|")
		}
		if c.Name == "Age" {
			out = append(out, c.Name)
			continue
		}
		out = append(out, fmt.Sprintf("%s=%v", c.Name, table.Rows[0].Cells[i+1]))
	}
	return strings.Join(out, " ")
}

// names are what kubectl may call the kinds, and their subresources.
func (s *server) names(t *testing.T) {
	want := map[string]string{
		"nodepools":                 "NodePool nodepool short=[] categories=[karpenter] namespaced=false",
		"nodepools/status":          "NodePool  short=[] categories=[] namespaced=false",
		"nodepools/scale":           "Scale  short=[] categories=[] namespaced=false",
		"nodeclaims":                "NodeClaim nodeclaim short=[] categories=[karpenter] namespaced=false",
		"nodeclaims/status":         "NodeClaim  short=[] categories=[] namespaced=false",
		"nodeoverlays":              "NodeOverlay nodeoverlay short=[overlays] categories=[karpenter] namespaced=false",
		"nodeoverlays/status":       "NodeOverlay  short=[] categories=[] namespaced=false",
		"disruptionpolicies":        "DisruptionPolicy disruptionpolicy short=[dpol] categories=[millwright] namespaced=false",
		"disruptionpolicies/status": "DisruptionPolicy  short=[] categories=[] namespaced=false",
		"ec2nodeclasses":            "EC2NodeClass ec2nodeclass short=[ec2nc ec2ncs] categories=[karpenter] namespaced=false",
		"ec2nodeclasses/status":     "EC2NodeClass  short=[] categories=[] namespaced=false",
	}
	got := map[string]string{}
	for _, group := range []string{"karpenter.sh/v1", "karpenter.sh/v1alpha1", "karpenter.k8s.aws/v1", "millwright.sh/v1alpha1"} {
		list, err := s.core.Discovery().ServerResourcesForGroupVersion(group)
		if err != nil {
			t.Fatal(err)
		}
		for _, r := range list.APIResources {
			got[r.Name] = fmt.Sprintf("%s %s short=%v categories=%v namespaced=%v", r.Kind, r.SingularName, r.ShortNames, r.Categories, r.Namespaced)
		}
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("resources (-want +got):\n%s", diff)
	}
}

// scale reads and writes spec.replicas of a static NodePool.
func (s *server) scale(t *testing.T) {
	o := s.live(t, nodePool, "replicas: 3")
	o.Object["status"] = map[string]any{"nodes": int64(2)}
	_, err := s.dynamic.Resource(nodePool.resource()).UpdateStatus(t.Context(), o, metav1.UpdateOptions{})
	check(t, err, "")
	client := s.core.CoreV1().RESTClient()
	scale := &autoscalingv1.Scale{}
	data, err := client.Get().AbsPath(s.path(nodePool, o.GetName(), "scale")).DoRaw(t.Context())
	check(t, err, "")
	if err := json.Unmarshal(data, scale); err != nil {
		t.Fatal(err)
	}
	if scale.Spec.Replicas != 3 || scale.Status.Replicas != 2 || scale.Status.Selector != "" {
		t.Errorf("scale is %d of %d, selector %q; want 2 of 3 and none", scale.Status.Replicas, scale.Spec.Replicas, scale.Status.Selector)
	}
	scale.Spec.Replicas = 5
	body, err := json.Marshal(scale)
	if err != nil {
		t.Fatal(err)
	}
	_, err = client.Put().AbsPath(s.path(nodePool, o.GetName(), "scale")).SetHeader("Content-Type", "application/json").Body(body).DoRaw(t.Context())
	check(t, err, "")
	o, err = s.dynamic.Resource(nodePool.resource()).Get(t.Context(), o.GetName(), metav1.GetOptions{})
	check(t, err, "")
	if got := at(o.Object, "spec.replicas"); got != int64(5) {
		t.Errorf("replicas = %v after scaling to 5", got)
	}
}

// roundTrips: what the Go types read, they write back, but for durations that the schema does not let keep
// their form.
func (s *server) roundTrips(t *testing.T) {
	for sentence, c := range map[string]struct {
		kind  kind
		typed any
		patch string
	}{
		"NodePool": {nodePool, &karpv1.NodePool{}, "{weight: 3, limits: {cpu: '2', nodes: '3'}, disruption: {consolidateAfter: 90s, budgets: [{nodes: '1', reasons: []}, {nodes: 5%, reasons: [Empty], schedule: '@daily', duration: 1h0m0s}]}, " +
			"template: {metadata: {labels: {a: b}, annotations: {c: d}}, spec: {expireAfter: 1440m, terminationGracePeriod: 1h0m0s, taints: [{key: a, effect: NoSchedule}], requirements: [{key: a, operator: In, values: [b, c], minValues: 2}]}}}"},
		"a NodePool without budgets": {nodePool, &karpv1.NodePool{}, "{disruption: {consolidateAfter: Never, budgets: []}, template: {metadata: {labels: {a: b}}}}"},
		"a static NodePool":          {nodePool, &karpv1.NodePool{}, "{replicas: 0, template: {metadata: {labels: {a: b}}}}"},
		"NodeClaim":                  {nodeClaim, &karpv1.NodeClaim{}, "{expireAfter: Never, terminationGracePeriod: 48h0m0s, resources: {requests: {cpu: 500m}}, startupTaints: [{key: a, value: b, effect: NoExecute}]}"},
		"EC2NodeClass": {nodeClass, &awsv1.EC2NodeClass{}, "{amiFamily: Custom, associatePublicIPAddress: false, detailedMonitoring: true, userData: u, context: c, tags: {a: b}, instanceStorePolicy: RAID0, ipPrefixCount: 2, " +
			"placementGroupSelector: {name: g}, networkInterfaces: [{networkCardIndex: 0, deviceIndex: 0, interfaceType: interface}], connectionTracking: {udpTimeout: 45}, cpuOptions: {nestedVirtualization: enabled}, " +
			"capacityReservationSelectorTerms: [{id: cr-1}], kubelet: {maxPods: 0, evictionSoft: {memory.available: 5%}, evictionSoftGracePeriod: {memory.available: 1m30s}}, " +
			"blockDeviceMappings: [{deviceName: /dev/xvda, rootVolume: true, ebs: {volumeSize: 58Ti, volumeType: io2, iops: 100, volumeInitializationRate: 100, snapshotID: s}}]}"},
	} {
		t.Run(sentence, func(t *testing.T) {
			o, err := s.create(t.Context(), c.kind, object(t, c.kind, c.patch), metav1.DryRunAll)
			check(t, err, "")
			data, err := o.MarshalJSON()
			if err != nil {
				t.Fatal(err)
			}
			if err := json.Unmarshal(data, c.typed); err != nil {
				t.Fatal(err)
			}
			if data, err = json.Marshal(c.typed); err != nil {
				t.Fatal(err)
			}
			again := &unstructured.Unstructured{}
			if err := again.UnmarshalJSON(data); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(o.Object["spec"], again.Object["spec"]); diff != "" {
				t.Errorf("spec (-read +written):\n%s", diff)
			}
		})
	}
}
