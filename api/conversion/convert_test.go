package conversion

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"sigs.k8s.io/yaml"
)

// object reads YAML as the API server would send it.
func object(t *testing.T, text string) Object {
	t.Helper()
	data, err := yaml.YAMLToJSON([]byte(text))
	if err != nil {
		t.Fatalf("parse %s: %v", text, err)
	}
	var v any
	if err := Unmarshal(data, &v); err != nil {
		t.Fatalf("parse %s: %v", text, err)
	}
	return v.(Object)
}

// pools: the NodePool month expires after 720h, always never; unread cannot be read.
func pools(_ context.Context, name string) (string, bool, error) {
	switch name {
	case "month":
		return "720h", true, nil
	case "always":
		return "Never", true, nil
	case "unread":
		return "", false, errors.New("connection refused")
	}
	return "", false, nil
}

// pool, claim and class fill a spec (and metadata) into an object of the version.
func pool(version, meta, rest string) string {
	return fmt.Sprintf("{apiVersion: karpenter.sh/%s, kind: NodePool, metadata: {name: p%s}, spec: %s}", version, meta, rest)
}

func claim(version, meta, spec, more string) string {
	return fmt.Sprintf("{apiVersion: karpenter.sh/%s, kind: NodeClaim, metadata: {name: c%s}, spec: %s%s}", version, meta, spec, more)
}

func class(version, meta, spec string) string {
	return fmt.Sprintf("{apiVersion: karpenter.k8s.aws/%s, kind: EC2NodeClass, metadata: {name: nc%s}, spec: %s}", version, meta, spec)
}

const (
	refJSON  = `'compatibility.karpenter.sh/v1beta1-nodeclass-reference': '{"name":"d"}'`
	fullJSON = `'compatibility.karpenter.sh/v1beta1-nodeclass-reference': '{"apiVersion":"karpenter.k8s.aws/v1beta1","kind":"EC2NodeClass","name":"d"}'`
	refV1    = "{group: karpenter.k8s.aws, kind: EC2NodeClass, name: d}"
	ann      = ", annotations: {"
)

// oneWay are conversions whose result is given in full; back means that converting back gives the input
// again.
var oneWay = map[string]struct {
	from, to, want string
	back           bool
}{
	"WhenUnderutilized waits for nothing": {
		pool("v1beta1", "", "{disruption: {consolidationPolicy: WhenUnderutilized, expireAfter: 90m}, template: {spec: {requirements: [], nodeClassRef: {name: d}}}}"), "karpenter.sh/v1",
		pool("v1", ann+refJSON+"}", "{disruption: {consolidationPolicy: WhenEmptyOrUnderutilized, consolidateAfter: 0s}, template: {spec: {requirements: [], expireAfter: 90m, nodeClassRef: "+refV1+"}}}"), true},
	"WhenUnderutilized with Never waits for nothing, and Never comes back": {
		pool("v1beta1", "", "{disruption: {consolidationPolicy: WhenUnderutilized, consolidateAfter: Never}, template: {spec: {nodeClassRef: {name: d}}}}"), "karpenter.sh/v1",
		pool("v1", ann+refJSON+", compatibility.millwright.sh/v1beta1-consolidate-after: Never}", "{disruption: {consolidationPolicy: WhenEmptyOrUnderutilized, consolidateAfter: 0s}, template: {spec: {nodeClassRef: "+refV1+"}}}"), true},
	"WhenEmpty keeps its time": {
		pool("v1beta1", "", "{disruption: {consolidationPolicy: WhenEmpty, consolidateAfter: 30s, expireAfter: Never, budgets: [{nodes: '1', schedule: '@daily', duration: 90m}]}, template: {spec: {nodeClassRef: {name: d}}}}"), "karpenter.sh/v1",
		pool("v1", ann+refJSON+"}", "{disruption: {consolidationPolicy: WhenEmpty, consolidateAfter: 30s, budgets: [{nodes: '1', schedule: '@daily', duration: 90m}]}, template: {spec: {expireAfter: Never, nodeClassRef: "+refV1+"}}}"), true},
	"WhenEmpty without time never comes": {
		pool("v1beta1", "", "{disruption: {consolidationPolicy: WhenEmpty}, template: {spec: {nodeClassRef: {name: d}}}}"), "karpenter.sh/v1",
		pool("v1", ann+refJSON+"}", "{disruption: {consolidationPolicy: WhenEmpty, consolidateAfter: Never}, template: {spec: {nodeClassRef: "+refV1+"}}}"), false},
	"no disruption means the default": {
		pool("v1beta1", "", "{template: {spec: {nodeClassRef: {name: d}}}}"), "karpenter.sh/v1",
		pool("v1", ann+refJSON+"}", "{disruption: {consolidationPolicy: WhenEmptyOrUnderutilized, consolidateAfter: 0s}, template: {spec: {nodeClassRef: "+refV1+"}}}"), false},
	"the kubelet block goes into an annotation": {
		pool("v1beta1", ann+"mine: yes-it-is}", "{disruption: {consolidationPolicy: WhenUnderutilized}, template: {spec: {kubelet: {maxPods: 9, evictionSoftGracePeriod: {memory.available: 90s}}, nodeClassRef: {name: d, kind: EC2NodeClass, apiVersion: karpenter.k8s.aws/v1beta1}}}}"), "karpenter.sh/v1",
		pool("v1", ann+fullJSON+`, mine: yes-it-is, 'compatibility.karpenter.sh/v1beta1-kubelet-conversion': '{"evictionSoftGracePeriod":{"memory.available":"90s"},"maxPods":9}'}`,
			"{disruption: {consolidationPolicy: WhenEmptyOrUnderutilized, consolidateAfter: 0s}, template: {spec: {nodeClassRef: "+refV1+"}}}"), true},
	"resources of a template are dropped": {
		pool("v1beta1", "", "{disruption: {consolidationPolicy: WhenUnderutilized}, template: {spec: {resources: {}, nodeClassRef: {name: d}}}}"), "karpenter.sh/v1",
		pool("v1", ann+refJSON+"}", "{disruption: {consolidationPolicy: WhenEmptyOrUnderutilized, consolidateAfter: 0s}, template: {spec: {nodeClassRef: "+refV1+"}}}"), false},
	"a reference to another group": {
		pool("v1beta1", "", "{disruption: {consolidationPolicy: WhenUnderutilized}, template: {spec: {nodeClassRef: {name: d, kind: K, apiVersion: example.com/v1}}}}"), "karpenter.sh/v1",
		pool("v1", ann+`'compatibility.karpenter.sh/v1beta1-nodeclass-reference': '{"apiVersion":"example.com/v1","kind":"K","name":"d"}'}`,
			"{disruption: {consolidationPolicy: WhenEmptyOrUnderutilized, consolidateAfter: 0s}, template: {spec: {nodeClassRef: {group: example.com, kind: K, name: d}}}}"), true},
	"v1 without annotations": {
		pool("v1", ann+"karpenter.sh/stored-version-migrated: 'true'}", "{replicas: 3, disruption: {consolidationPolicy: WhenEmptyOrUnderutilized, consolidateAfter: 5m, budgets: [{nodes: 10%, reasons: [Drifted]}]}, template: {spec: {expireAfter: 1h, terminationGracePeriod: 2h, nodeClassRef: "+refV1+"}}}"), "karpenter.sh/v1beta1",
		pool("v1beta1", "", "{replicas: 3, disruption: {consolidationPolicy: WhenUnderutilized, expireAfter: 1h, budgets: [{nodes: 10%}]}, template: {spec: {nodeClassRef: {kind: EC2NodeClass, name: d}}}}"), false},
	"a reference edited in v1 wins over the annotation": {
		pool("v1", ann+fullJSON+"}", "{disruption: {consolidationPolicy: WhenEmpty, consolidateAfter: 5m}, template: {spec: {nodeClassRef: {group: karpenter.k8s.aws, kind: EC2NodeClass, name: other}}}}"), "karpenter.sh/v1beta1",
		pool("v1beta1", "", "{disruption: {consolidationPolicy: WhenEmpty, consolidateAfter: 5m}, template: {spec: {nodeClassRef: {kind: EC2NodeClass, name: other}}}}"), false},
	"Balanced has no v1beta1 name and keeps its own": {
		pool("v1", "", "{disruption: {consolidationPolicy: Balanced, consolidateAfter: 5m}, template: {spec: {nodeClassRef: "+refV1+"}}}"), "karpenter.sh/v1beta1",
		pool("v1beta1", "", "{disruption: {consolidationPolicy: Balanced, consolidateAfter: 5m}, template: {spec: {nodeClassRef: {kind: EC2NodeClass, name: d}}}}"), false},
	"a NodeClaim expires as its NodePool says": {
		claim("v1beta1", ", labels: {karpenter.sh/nodepool: month}", "{resources: {requests: {cpu: 1000m}}, kubelet: {maxPods: 1}, nodeClassRef: {name: d}}", ""), "karpenter.sh/v1",
		claim("v1", ", labels: {karpenter.sh/nodepool: month}"+ann+refJSON+`, 'compatibility.karpenter.sh/v1beta1-kubelet-conversion': '{"maxPods":1}'}`,
			"{resources: {requests: {cpu: 1000m}}, expireAfter: 720h, nodeClassRef: "+refV1+"}", ""), true},
	"a NodeClaim of a NodePool that is gone never expires": {
		claim("v1beta1", ", labels: {karpenter.sh/nodepool: gone}", "{nodeClassRef: {name: d}}", ""), "karpenter.sh/v1",
		claim("v1", ", labels: {karpenter.sh/nodepool: gone}"+ann+refJSON+"}", "{expireAfter: Never, nodeClassRef: "+refV1+"}", ""), true},
	"a NodeClaim of no NodePool never expires": {
		claim("v1beta1", "", "{nodeClassRef: {name: d}}", ""), "karpenter.sh/v1",
		claim("v1", ann+refJSON+"}", "{expireAfter: Never, nodeClassRef: "+refV1+"}", ""), true},
	"a v1 NodeClaim loses three fields": {
		claim("v1", "", "{expireAfter: 1h, terminationGracePeriod: 1h, nodeClassRef: "+refV1+"}", ", status: {nodeName: n, lastPodEventTime: '2024-01-01T00:00:00Z'}"), "karpenter.sh/v1beta1",
		claim("v1beta1", "", "{nodeClassRef: {kind: EC2NodeClass, name: d}}", ", status: {nodeName: n}"), false},
	"a family without terms is an alias": {
		class("v1beta1", "", "{amiFamily: AL2023, role: r}"), "karpenter.k8s.aws/v1",
		class("v1", "", "{amiSelectorTerms: [{alias: al2023@latest}], role: r}"), true},
	"Windows too": {
		class("v1beta1", "", "{amiFamily: Windows2022}"), "karpenter.k8s.aws/v1",
		class("v1", "", "{amiSelectorTerms: [{alias: windows2022@latest}]}"), true},
	"the alias has the annotated version": {
		class("v1beta1", ann+"compatibility.karpenter.k8s.aws/v1-alias-version: v20240807}", "{amiFamily: AL2}"), "karpenter.k8s.aws/v1",
		class("v1", "", "{amiSelectorTerms: [{alias: al2@v20240807}]}"), true},
	"a family with terms keeps both": {
		class("v1beta1", "", "{amiFamily: Bottlerocket, amiSelectorTerms: [{id: ami-1}, {tags: {a: b}}]}"), "karpenter.k8s.aws/v1",
		class("v1", "", "{amiFamily: Bottlerocket, amiSelectorTerms: [{id: ami-1}, {tags: {a: b}}]}"), true},
	"Custom stays": {
		class("v1beta1", "", "{amiFamily: Custom, amiSelectorTerms: [{name: mine}], metadataOptions: {httpPutResponseHopLimit: 2}}"), "karpenter.k8s.aws/v1",
		class("v1", "", "{amiFamily: Custom, amiSelectorTerms: [{name: mine}], metadataOptions: {httpPutResponseHopLimit: 2}}"), true},
	"Ubuntu without anything": {
		class("v1beta1", "", "{amiFamily: Ubuntu}"), "karpenter.k8s.aws/v1",
		class("v1", ann+"compatibility.karpenter.k8s.aws/v1beta1-ubuntu: 'amiFamily,blockDeviceMappings,incompatible'}",
			"{amiFamily: AL2, amiSelectorTerms: [{id: ami-placeholder}], blockDeviceMappings: [{deviceName: /dev/sda1, rootVolume: true, ebs: {encrypted: true, volumeType: gp3, volumeSize: 20Gi}}]}"), true},
	"Ubuntu with terms and volumes": {
		class("v1beta1", "", "{amiFamily: Ubuntu, amiSelectorTerms: [{id: ami-1}], blockDeviceMappings: [{deviceName: /dev/sdb}]}"), "karpenter.k8s.aws/v1",
		class("v1", ann+"compatibility.karpenter.k8s.aws/v1beta1-ubuntu: amiFamily}", "{amiFamily: AL2, amiSelectorTerms: [{id: ami-1}], blockDeviceMappings: [{deviceName: /dev/sdb}]}"), true},
	"what was put there for Ubuntu stays once it is edited": {
		class("v1", ann+"compatibility.karpenter.k8s.aws/v1beta1-ubuntu: 'amiFamily,blockDeviceMappings,incompatible'}", "{amiFamily: AL2023, amiSelectorTerms: [{id: ami-1}], blockDeviceMappings: [{deviceName: /dev/sda1}]}"), "karpenter.k8s.aws/v1beta1",
		class("v1beta1", "", "{amiFamily: AL2023, amiSelectorTerms: [{id: ami-1}], blockDeviceMappings: [{deviceName: /dev/sda1}]}"), false},
	"an alias of a version": {
		class("v1", "", "{amiSelectorTerms: [{alias: bottlerocket@1.20.0}], kubelet: {maxPods: 4}, ipPrefixCount: 1}"), "karpenter.k8s.aws/v1beta1",
		class("v1beta1", ann+"compatibility.karpenter.k8s.aws/v1-alias-version: 1.20.0}", "{amiFamily: Bottlerocket, ipPrefixCount: 1}"), false},
	"an alias under Custom": {
		class("v1", "", "{amiFamily: Custom, amiSelectorTerms: [{alias: al2023@latest}]}"), "karpenter.k8s.aws/v1beta1",
		class("v1beta1", ann+"compatibility.karpenter.k8s.aws/v1-alias-version: al2023@latest}", "{amiFamily: Custom}"), true},
	"a stale alias version gives way to latest": {
		class("v1", ann+"compatibility.karpenter.k8s.aws/v1-alias-version: v1}", "{amiSelectorTerms: [{alias: al2023@latest}]}"), "karpenter.k8s.aws/v1beta1",
		class("v1beta1", "", "{amiFamily: AL2023}"), false},
	"a list is converted item by item": {
		"{apiVersion: karpenter.k8s.aws/v1beta1, kind: EC2NodeClassList, items: [" + class("v1beta1", "", "{amiFamily: AL2}") + "]}", "karpenter.k8s.aws/v1",
		"{apiVersion: karpenter.k8s.aws/v1, kind: EC2NodeClassList, items: [" + class("v1", "", "{amiSelectorTerms: [{alias: al2@latest}]}") + "]}", true},
	"a class without spec": {
		"{apiVersion: karpenter.k8s.aws/v1, kind: EC2NodeClass, metadata: {name: c}}", "karpenter.k8s.aws/v1beta1",
		"{apiVersion: karpenter.k8s.aws/v1beta1, kind: EC2NodeClass, metadata: {name: c}}", true},
	"an object that has the version already": {
		class("v1", "", "{amiFamily: AL2}"), "karpenter.k8s.aws/v1", class("v1", "", "{amiFamily: AL2}"), false},
}

// The rules: api §5.
func TestConversions(t *testing.T) {
	c := Converter{Pool: pools}
	for sentence, tc := range oneWay {
		t.Run(sentence, func(t *testing.T) {
			in := object(t, tc.from)
			got, _, err := c.Convert(t.Context(), in, tc.to)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(object(t, tc.want), got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(object(t, tc.from), in); diff != "" {
				t.Errorf("the input was changed:\n%s", diff)
			}
			if !tc.back {
				return
			}
			again, _, err := c.Convert(t.Context(), got, in["apiVersion"].(string))
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(in, again); diff != "" {
				t.Errorf("there and back (-want +got):\n%s", diff)
			}
		})
	}
}

func TestLossesAreNamed(t *testing.T) {
	for sentence, tc := range map[string]struct{ from, to, want string }{
		"NodePool": {pool("v1", "", "{disruption: {consolidateAfter: 5m, budgets: [{nodes: '1'}, {nodes: '2', reasons: []}]}, template: {spec: {terminationGracePeriod: 1h, nodeClassRef: "+refV1+"}}}"), "karpenter.sh/v1beta1",
			"spec.disruption.consolidateAfter spec.disruption.budgets[1].reasons spec.template.spec.terminationGracePeriod"},
		"NodeClaim":    {claim("v1", "", "{expireAfter: 1h, nodeClassRef: "+refV1+"}", ""), "karpenter.sh/v1beta1", "spec.expireAfter"},
		"EC2NodeClass": {class("v1", "", "{amiFamily: AL2, kubelet: {}}"), "karpenter.k8s.aws/v1beta1", "spec.kubelet"},
		"nothing lost": {class("v1beta1", "", "{amiFamily: AL2}"), "karpenter.k8s.aws/v1", ""},
	} {
		t.Run(sentence, func(t *testing.T) {
			_, losses, err := Converter{}.Convert(t.Context(), object(t, tc.from), tc.to)
			if err != nil {
				t.Fatal(err)
			}
			var paths []string
			for _, l := range losses {
				paths = append(paths, l.Path)
			}
			if got := strings.Join(paths, " "); got != tc.want {
				t.Errorf("lost %q, want %q", got, tc.want)
			}
		})
	}
}

func TestBadObjectsAreRefusedByNameAndField(t *testing.T) {
	good := "{template: {spec: {nodeClassRef: {name: d}}}}"
	for sentence, tc := range map[string]struct{ from, to, want string }{
		"an unknown version wanted":      {pool("v1beta1", "", good), "karpenter.sh/v2", `convert NodePool p to karpenter.sh/v2: desired API version: unknown version "v2" of karpenter.sh`},
		"an unknown version given":       {pool("v1alpha5", "", good), "karpenter.sh/v1", `NodePool p to karpenter.sh/v1: apiVersion: unknown version "v1alpha5"`},
		"another group":                  {"{apiVersion: example.com/v1, kind: NodePool}", "karpenter.sh/v1", `apiVersion: unknown group in "example.com/v1"`},
		"another kind":                   {"{apiVersion: karpenter.sh/v1beta1, kind: NodeOverlay}", "karpenter.sh/v1", `unknown kind "NodeOverlay"`},
		"no kind":                        {"{apiVersion: karpenter.sh/v1beta1}", "karpenter.sh/v1", `object without kind`},
		"a kind that is no text":         {"{apiVersion: karpenter.sh/v1beta1, kind: 5}", "karpenter.sh/v1", `kind: must be a string, is a number`},
		"no metadata":                    {"{apiVersion: karpenter.sh/v1beta1, kind: NodePool, spec: " + good + "}", "karpenter.sh/v1", `metadata: is required`},
		"no spec":                        {"{apiVersion: karpenter.sh/v1beta1, kind: NodePool, metadata: {name: p}}", "karpenter.sh/v1", `convert NodePool p to karpenter.sh/v1: spec: is required`},
		"a spec that is text":            {pool("v1beta1", "", "x"), "karpenter.sh/v1", `spec: must be an object, is a string`},
		"a template that is a list":      {pool("v1beta1", "", "{template: []}"), "karpenter.sh/v1", `spec.template: must be an object, is a list`},
		"no reference":                   {pool("v1beta1", "", "{template: {spec: {}}}"), "karpenter.sh/v1", `spec.template.spec.nodeClassRef: is required`},
		"a fraction for a duration":      {pool("v1beta1", "", "{disruption: {expireAfter: 1.5}, template: {spec: {nodeClassRef: {name: d}}}}"), "karpenter.sh/v1", `spec.disruption.expireAfter: must be a string, is a number`},
		"a duration that is a number":    {pool("v1beta1", "", "{disruption: {expireAfter: 5}, template: {spec: {nodeClassRef: {name: d}}}}"), "karpenter.sh/v1", `spec.disruption.expireAfter: must be a string, is a number`},
		"an annotation that is a number": {pool("v1beta1", ann+"a: 5}", good), "karpenter.sh/v1", `metadata.annotations[a]: must be a string, is a number`},
		"a broken kubelet annotation":    {pool("v1", ann+"compatibility.karpenter.sh/v1beta1-kubelet-conversion: '{'}", good), "karpenter.sh/v1beta1", `metadata.annotations[compatibility.karpenter.sh/v1beta1-kubelet-conversion]: unexpected EOF`},
		"a kubelet annotation of a list": {pool("v1", ann+"compatibility.karpenter.sh/v1beta1-kubelet-conversion: '[]'}", good), "karpenter.sh/v1beta1", `must be a JSON object, is a list`},
		"a budget that is text":          {pool("v1", "", "{disruption: {budgets: [x]}, template: {spec: {nodeClassRef: {name: d}}}}"), "karpenter.sh/v1beta1", `spec.disruption.budgets[0]: must be an object, is a string`},
		"a NodePool that cannot be read": {claim("v1beta1", ", labels: {karpenter.sh/nodepool: unread}", "{nodeClassRef: {name: d}}", ""), "karpenter.sh/v1", `convert NodeClaim c to karpenter.sh/v1: spec.expireAfter: read NodePool unread: connection refused`},
		"an alias of an unknown family":  {class("v1", "", "{amiSelectorTerms: [{alias: beos@latest}]}"), "karpenter.k8s.aws/v1beta1", `spec.amiSelectorTerms[0].alias: unknown family in alias beos@latest`},
		"a bad item":                     {"{apiVersion: karpenter.k8s.aws/v1, kind: EC2NodeClassList, items: [" + class("v1", "", "x") + "]}", "karpenter.k8s.aws/v1beta1", `items[0]: convert EC2NodeClass nc to karpenter.k8s.aws/v1beta1: spec: must be an object`},
	} {
		t.Run(sentence, func(t *testing.T) {
			_, _, err := Converter{Pool: pools}.Convert(t.Context(), object(t, tc.from), tc.to)
			if err == nil || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("got %v, want %q", err, tc.want)
			}
		})
	}
}
