package apitest_test

import (
	"context"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"
)

// defaults: what the server adds to what was left out.
func (s *server) defaults(t *testing.T) {
	const options = "{httpEndpoint: enabled, httpProtocolIPv6: disabled, httpPutResponseHopLimit: 1, httpTokens: required}"
	for sentence, c := range map[string]struct {
		kind              kind
		patch, path, want string
	}{
		"disruption absent":                 {nodePool, "", "disruption", "{consolidateAfter: 0s, consolidationPolicy: WhenEmptyOrUnderutilized, budgets: [{nodes: 10%}]}"},
		"disruption with consolidateAfter":  {nodePool, "disruption: {consolidateAfter: 1m}", "disruption", "{consolidateAfter: 1m, consolidationPolicy: WhenEmptyOrUnderutilized, budgets: [{nodes: 10%}]}"},
		"no budgets stay none":              {nodePool, "disruption: {consolidateAfter: 1m, budgets: []}", "disruption", "{consolidateAfter: 1m, consolidationPolicy: WhenEmptyOrUnderutilized, budgets: []}"},
		"nodes of a budget":                 {nodePool, "disruption: {consolidateAfter: 1m, budgets: [{reasons: []}]}", "disruption.budgets", "[{nodes: 10%, reasons: []}]"},
		"expireAfter of a NodePool":         {nodePool, "", "template.spec.expireAfter", "720h"},
		"expireAfter Never stays":           {nodePool, template("expireAfter: Never"), "template.spec.expireAfter", "Never"},
		"no terminationGracePeriod":         {nodePool, "", "template.spec.terminationGracePeriod", "null"},
		"no weight":                         {nodePool, "", "weight", "null"},
		"no replicas":                       {nodePool, "", "replicas", "null"},
		"expireAfter of a NodeClaim":        {nodeClaim, "", "expireAfter", "720h"},
		"metadataOptions absent":            {nodeClass, "", "metadataOptions", options},
		"metadataOptions empty":             {nodeClass, "metadataOptions: {}", "metadataOptions", options},
		"metadataOptions with one of four":  {nodeClass, "metadataOptions: {httpTokens: optional}", "metadataOptions", "{httpEndpoint: enabled, httpProtocolIPv6: disabled, httpPutResponseHopLimit: 1, httpTokens: optional}"},
		"no amiFamily":                      {nodeClass, "", "amiFamily", "null"},
		"no block devices":                  {nodeClass, "", "blockDeviceMappings", "null"},
		"no connection tracking":            {nodeClass, "", "connectionTracking", "null"},
		"volume sizes stay as written":      {nodeClass, "blockDeviceMappings: [{ebs: {volumeSize: 1000G}}]", "blockDeviceMappings", "[{ebs: {volumeSize: 1000G}}]"},
		"durations stay as written":         {nodePool, "{disruption: {consolidateAfter: 90s}, template: {spec: {expireAfter: 1440m, terminationGracePeriod: 120s}}}", "template.spec.expireAfter", "1440m"},
		"a grace period stays as written":   {nodePool, template("terminationGracePeriod: 120s"), "template.spec.terminationGracePeriod", "120s"},
		"a budget duration stays":           {nodePool, "disruption: {consolidateAfter: 90s, budgets: [{nodes: '1', schedule: '@daily', duration: 90m}]}", "disruption.budgets", "[{nodes: '1', schedule: '@daily', duration: 90m}]"},
		"a quantity in limits stays":        {nodePool, "limits: {cpu: 1000m}", "limits", "{cpu: 1000m}"},
		"a NodeClass needs no instance tag": {nodeClass, "", "tags", "null"},
	} {
		t.Run(sentence, func(t *testing.T) {
			o, err := s.create(t.Context(), c.kind, object(t, c.kind, c.patch), metav1.DryRunAll)
			check(t, err, "")
			var want any
			if err := yaml.Unmarshal([]byte(c.want), &want); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(want, plain(t, at(o.Object["spec"], c.path))); diff != "" {
				t.Errorf("spec.%s (-want +got):\n%s", c.path, diff)
			}
		})
	}
	t.Run("an EC2NodeClass without spec", func(t *testing.T) {
		o := object(t, nodeClass, "")
		delete(o.Object, "spec")
		_, err := s.create(t.Context(), nodeClass, o, metav1.DryRunAll)
		check(t, err, "")
	})
	for _, k := range []kind{nodePool, nodeClaim} {
		t.Run("a "+k.gvk.Kind+" without spec", func(t *testing.T) {
			o := object(t, k, "")
			delete(o.Object, "spec")
			_, err := s.create(t.Context(), k, o, metav1.DryRunAll)
			check(t, err, "Required value")
		})
	}
}

// updates: what may change once it exists.
func (s *server) updates(t *testing.T) {
	const (
		transition = "Cannot transition NodePool between static (replicas set) and dynamic (replicas unset) provisioning modes"
		immutable  = "spec is immutable"
	)
	for sentence, c := range map[string]struct {
		kind                   kind
		before, after, refused string
	}{
		"the group of a pool's class is fixed":    {nodePool, "", template("nodeClassRef: {group: example.com}"), "nodeClassRef.group is immutable"},
		"the kind of a pool's class is fixed":     {nodePool, "", template("nodeClassRef: {kind: Other}"), "nodeClassRef.kind is immutable"},
		"the name of a pool's class may change":   {nodePool, "", template("nodeClassRef: {name: other}"), ""},
		"a dynamic pool stays dynamic":            {nodePool, "", "replicas: 1", transition},
		"a static pool stays static":              {nodePool, "replicas: 1", "replicas: null", transition},
		"the number of replicas may change":       {nodePool, "replicas: 1", "replicas: 0", ""},
		"requirements of a pool may change":       {nodePool, "", template("requirements: [{key: a, operator: Exists}]"), ""},
		"limits of a pool may change":             {nodePool, "limits: {cpu: 1}", "limits: {cpu: 2}", ""},
		"a weight may go":                         {nodePool, "weight: 1", "weight: null", ""},
		"disruption may be switched off":          {nodePool, "", "disruption: {consolidateAfter: Never}", ""},
		"requirements of a claim are fixed":       {nodeClaim, "", "requirements: [{key: a, operator: Exists}]", immutable},
		"the class of a claim is fixed":           {nodeClaim, "", "nodeClassRef: {name: other}", immutable},
		"the expiry of a claim is fixed":          {nodeClaim, "", "expireAfter: 1h", immutable},
		"the grace of a claim is fixed":           {nodeClaim, "", "terminationGracePeriod: 1h", immutable},
		"resources of a claim are fixed":          {nodeClaim, "resources: {requests: {cpu: 1}}", "resources: {requests: {cpu: 2}}", immutable},
		"a claim written back unchanged is fine":  {nodeClaim, "resources: {requests: {cpu: 1}}", "", ""},
		"a role may change":                       {nodeClass, "", "role: other", ""},
		"a role may become an instance profile":   {nodeClass, "", "{role: null, instanceProfile: p}", ""},
		"an instance profile may become a role":   {nodeClass, "{role: null, instanceProfile: p}", "{role: r, instanceProfile: null}", ""},
		"a placement group may change to another": {nodeClass, "placementGroupSelector: {name: a}", "placementGroupSelector: {name: b}", ""},
	} {
		t.Run(sentence, func(t *testing.T) {
			o := s.live(t, c.kind, c.before)
			o.Object["spec"] = patched(t, o.Object["spec"].(map[string]any), c.after)
			_, err := s.dynamic.Resource(c.kind.resource()).Update(t.Context(), o, metav1.UpdateOptions{DryRun: []string{metav1.DryRunAll}})
			check(t, err, c.refused)
		})
	}
}

// live creates an object for real and deletes it at the test's end.
func (s *server) live(t *testing.T, k kind, patch string) *unstructured.Unstructured {
	t.Helper()
	o, err := s.create(t.Context(), k, object(t, k, patch))
	check(t, err, "")
	t.Cleanup(func() {
		if err := s.dynamic.Resource(k.resource()).Delete(context.Background(), o.GetName(), metav1.DeleteOptions{}); err != nil {
			t.Errorf("delete %s: %v", o.GetName(), err)
		}
	})
	return o
}

// statuses: conditions and the lists of an EC2NodeClass.
func (s *server) statuses(t *testing.T) {
	const (
		full      = "{type: Ready, status: 'True', reason: Ready, message: '', lastTransitionTime: '2024-01-01T00:00:00Z'}"
		noReason  = "{type: Ready, status: 'True', reason: '', message: '', lastTransitionTime: '2024-01-01T00:00:00Z'}"
		bare      = "{type: Ready, status: 'True', lastTransitionTime: '2024-01-01T00:00:00Z'}"
		badStatus = "{type: Ready, status: 'Yes', reason: Ready, message: '', lastTransitionTime: '2024-01-01T00:00:00Z'}"
		cr        = "id: cr-1, instanceType: m5.large, availabilityZone: a, instanceMatchCriteria: open, ownerID: '123456789012'"
	)
	conditions := func(items string) string { return "conditions: [" + items + "]" }
	one, many := "should be at least 1 chars long", `Duplicate value: {"type":"Ready"}`
	for sentence, c := range map[string]struct {
		kind           kind
		patch, refused string
	}{
		"NodePool with a condition":                 {nodePool, conditions(full), ""},
		"NodePool without reason":                   {nodePool, conditions(noReason), one},
		"NodePool with a bare condition":            {nodePool, conditions(bare), "Required value"},
		"NodePool with an unknown status":           {nodePool, conditions(badStatus), `supported values: "True", "False", "Unknown"`},
		"NodePool with a condition twice":           {nodePool, conditions(full + "," + full), many},
		"NodePool with all fields":                  {nodePool, "{resources: {cpu: 1, nodes: 2}, nodes: 2, nodeClassObservedGeneration: 3}", ""},
		"NodeClaim with a condition":                {nodeClaim, conditions(full), ""},
		"NodeClaim without reason":                  {nodeClaim, conditions(noReason), ""},
		"NodeClaim with a bare condition":           {nodeClaim, conditions(bare), ""},
		"NodeClaim with an unknown status":          {nodeClaim, conditions(badStatus), `supported values: "True", "False", "Unknown"`},
		"NodeClaim with a condition twice":          {nodeClaim, conditions(full + "," + full), many},
		"NodeClaim with a condition without time":   {nodeClaim, conditions("{type: Ready, status: 'True'}"), "Required value"},
		"NodeClaim with all fields":                 {nodeClaim, "{nodeName: n1, providerID: 'aws:///a/i-1', imageID: ami-1, capacity: {cpu: 1}, allocatable: {cpu: 900m}, lastPodEventTime: '2024-01-01T00:00:00Z'}", ""},
		"EC2NodeClass with a condition":             {nodeClass, conditions(full), ""},
		"EC2NodeClass without reason":               {nodeClass, conditions(noReason), one},
		"EC2NodeClass with a condition twice":       {nodeClass, conditions(full + "," + full), ""},
		"EC2NodeClass with what it resolved":        {nodeClass, "{subnets: [{id: subnet-1, zone: a, zoneID: z}], securityGroups: [{id: sg-1, name: n1}], amis: [{id: ami-1, name: n1, deprecated: true, requirements: [{key: a, operator: In, values: [b]}]}], instanceProfile: p}", ""},
		"EC2NodeClass with an image for any type":   {nodeClass, "amis: [{id: ami-1}]", "Required value"},
		"EC2NodeClass with a subnet of no zone":     {nodeClass, "subnets: [{id: subnet-1}]", "Required value"},
		"EC2NodeClass with a reservation":           {nodeClass, "capacityReservations: [{" + cr + "}]", ""},
		"EC2NodeClass with a full reservation":      {nodeClass, "capacityReservations: [{" + cr + ", endTime: '2024-01-01T00:00:00Z', reservationType: capacity-block, state: expiring, interruptible: true}]", ""},
		"EC2NodeClass with a reservation of a name": {nodeClass, "capacityReservations: [{id: cr-1}]", "Required value"},
		"EC2NodeClass with an odd reservation":      {nodeClass, "capacityReservations: [{" + cr + ", reservationType: odd}]", `supported values: "default", "capacity-block"`},
		"EC2NodeClass with a reservation that ends": {nodeClass, "capacityReservations: [{" + cr + ", state: ended}]", `supported values: "active", "expiring"`},
	} {
		t.Run(sentence, func(t *testing.T) {
			o := s.live(t, c.kind, "")
			o.Object["status"] = parse(t, c.patch)
			_, err := s.dynamic.Resource(c.kind.resource()).UpdateStatus(t.Context(), o, metav1.UpdateOptions{DryRun: []string{metav1.DryRunAll}, FieldValidation: "Strict"})
			check(t, err, c.refused)
		})
	}
	t.Run("a reservation gets its defaults", func(t *testing.T) {
		o := s.live(t, nodeClass, "")
		o.Object["status"] = parse(t, "capacityReservations: [{"+cr+"}]")
		got, err := s.dynamic.Resource(nodeClass.resource()).UpdateStatus(t.Context(), o, metav1.UpdateOptions{DryRun: []string{metav1.DryRunAll}})
		if err != nil {
			t.Fatal(err)
		}
		all, _, _ := unstructured.NestedSlice(got.Object, "status", "capacityReservations")
		if r := all[0].(map[string]any); r["reservationType"] != "default" || r["state"] != "active" {
			t.Errorf("%v", r)
		}
	})
}

// plain turns integers into those a YAML parser gives.
func plain(t *testing.T, v any) any {
	t.Helper()
	data, err := yaml.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	var out any
	if err := yaml.Unmarshal(data, &out); err != nil {
		t.Fatal(err)
	}
	return out
}
