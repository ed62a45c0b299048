package convert

import (
	"encoding/json"
	"strings"
	"testing"

	"millwright/api/conversion"
)

// A selector that cannot be written as terms is refused, since without that key it would select more.
func TestSelectorsAreNeverWidened(t *testing.T) {
	template := func(spec string) string {
		return "{apiVersion: karpenter.k8s.aws/v1alpha1, kind: AWSNodeTemplate, metadata: {name: t}, spec: {" + spec + "}}"
	}
	for spec, want := range map[string]string{
		"subnetSelector: {team: blue, tier: ''}":               "spec.subnetSelector: tier: is empty",
		"subnetSelector: {team: blue, tier: ' , '}":            "spec.subnetSelector: tier: is empty",
		"subnetSelector: {team: blue, tier: 5}":                "spec.subnetSelector: tier: must be a string",
		"subnetSelector: {team: blue, tier: null}":             "spec.subnetSelector: tier: must be a string",
		"subnetSelector: {aws-ids: '', team: blue}":            "spec.subnetSelector: aws-ids: is empty",
		"subnetSelector: {'': x}":                              "spec.subnetSelector: an empty tag key",
		"subnetSelector: {'aws::other': x}":                    "spec.subnetSelector: aws::other: is not known",
		"securityGroupSelector: {'aws::ids': ''}":              "spec.securityGroupSelector: aws::ids: is empty",
		"amiSelector: {'aws::owners': '', team: blue}":         "spec.amiSelector: aws::owners: is empty",
		"amiSelector: {'aws::name': '', team: blue}":           "spec.amiSelector: aws::name: is empty",
		"subnetSelector: {'aws::owners': self}":                "spec.subnetSelector: aws::owners: is not known",
		"subnetSelector: {a: '1,2,3,4,5,6', b: '1,2,3,4,5,6'}": "stands for more than 30 terms",
	} {
		if out, _, err := Run(Options{To: "v1"}, []Source{{"f", []byte(template(spec))}}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: error %v, got\n%s", spec, err, out)
		}
	}
	out, _, err := Run(Options{To: "v1"}, []Source{{"f", []byte(template("subnetSelector: {'aws-cdk:stack': x}"))}})
	if err != nil || !strings.Contains(string(out), "'aws-cdk:stack': x") {
		t.Errorf("a tag whose key begins as those of AWS: %v\n%s", err, out)
	}
}

func TestValuesThatNoVersionTakesAreRefused(t *testing.T) {
	pool := func(version, more, template string) string {
		return "{apiVersion: karpenter.sh/" + version + ", kind: NodePool, metadata: {name: p" + more + "}, spec: {template: {spec: {requirements: [], nodeClassRef: {name: c}" + template + "}}}}"
	}
	annotation := func(text string) string {
		return pool("v1", ", annotations: {"+conversion.KubeletAnnotation+": '"+text+"'}", "")
	}
	for sentence, c := range map[string]struct{ to, text, want string }{
		"days":                              {"v1", strings.Replace(pool("v1beta1", "", ""), "spec: {template", "spec: {disruption: {expireAfter: 30d}, template", 1), "spec.disruption.expireAfter"},
		"words":                             {"v1", strings.Replace(pool("v1beta1", "", ""), "spec: {template", "spec: {disruption: {expireAfter: thirty days}, template", 1), "spec.disruption.expireAfter"},
		"lots":                              {"v1", strings.Replace(pool("v1beta1", "", ""), "spec: {template", "spec: {limits: {cpu: lots}, template", 1), "spec.limits[cpu]"},
		"days in v1":                        {"v1beta1", pool("v1", "", ", expireAfter: 30d"), "spec.template.spec.expireAfter"},
		"a kubelet of another type":         {"v1beta1", annotation(`[]`), conversion.KubeletAnnotation},
		"a kubelet's field of another type": {"v1beta1", annotation(`{"maxPods":"many"}`), "spec.template.spec.kubelet.maxPods"},
	} {
		if out, _, err := Run(Options{To: c.to}, []Source{{"f", []byte(c.text)}}); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: error %v, got\n%s", sentence, err, out)
		}
	}
	if _, _, err := Run(Options{To: "v1beta1"}, []Source{{"f", []byte(annotation(""))}}); err != nil {
		t.Errorf("an empty kubelet annotation: %v", err)
	}
}

// Converting there and back changes nothing.
func TestRoundTrips(t *testing.T) {
	for sentence, text := range map[string]string{
		"never consolidated by an absent policy": `apiVersion: karpenter.sh/v1beta1
kind: NodePool
metadata:
  name: p
spec:
  disruption:
    consolidateAfter: Never
    expireAfter: 720h
  template:
    spec:
      nodeClassRef:
        name: c
      requirements: []
`,
		"never consolidated by a policy that cannot": `apiVersion: karpenter.sh/v1beta1
kind: NodePool
metadata:
  name: p
spec:
  disruption:
    consolidationPolicy: WhenUnderutilized
    consolidateAfter: Never
    expireAfter: 720h
  template:
    spec:
      kubelet:
        maxPods: 20
      nodeClassRef:
        apiVersion: other.example.com/v1
        kind: OtherClass
        name: c
      requirements: []
`,
		"no disruption at all": `apiVersion: karpenter.sh/v1beta1
kind: NodePool
metadata:
  name: p
spec:
  template:
    spec:
      nodeClassRef:
        name: c
      requirements: []
`,
		"Ubuntu without terms": `apiVersion: karpenter.k8s.aws/v1beta1
kind: EC2NodeClass
metadata:
  name: c
  annotations:
    a: b
spec:
  amiFamily: Ubuntu
  role: r
  subnetSelectorTerms:
  - id: subnet-1
  securityGroupSelectorTerms:
  - id: sg-1
`,
		"options without a hop limit": `apiVersion: karpenter.k8s.aws/v1beta1
kind: EC2NodeClass
metadata:
  name: c
spec:
  amiFamily: AL2023
  role: r
  metadataOptions:
    httpTokens: optional
  subnetSelectorTerms:
  - id: subnet-1
  securityGroupSelectorTerms:
  - id: sg-1
`,
	} {
		t.Run(sentence, func(t *testing.T) {
			there, _, err := Run(Options{To: "v1", RoundTrip: true}, []Source{{"f", []byte(text)}})
			if err != nil {
				t.Fatal(err)
			}
			back, _, err := Run(Options{To: "v1beta1", RoundTrip: true}, []Source{{"f", there}})
			if err != nil {
				t.Fatal(err)
			}
			if treeText(t, string(back)) != treeText(t, text) {
				t.Errorf("there:\n%s\nback:\n%s\nwant:\n%s", there, back, text)
			}
		})
	}
}

// treeText is the canonical JSON of a manifest.
func treeText(t *testing.T, text string) string {
	t.Helper()
	docs, err := split(Source{"f", []byte(text)})
	if err != nil || len(docs) != 1 {
		t.Fatal(err, len(docs))
	}
	data, err := json.Marshal(docs[0].tree)
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

func TestAnAbsentPolicyKeepsItsTime(t *testing.T) {
	text := "{apiVersion: karpenter.sh/v1beta1, kind: NodePool, metadata: {name: p}, spec: {disruption: {consolidateAfter: Never}, template: {spec: {requirements: [], nodeClassRef: {name: c}}}}}"
	out, notes, err := Run(Options{To: "v1"}, []Source{{"f", []byte(text)}})
	if err != nil || len(notes) > 0 || !strings.Contains(string(out), "consolidateAfter: Never") || strings.Contains(string(out), "compatibility") {
		t.Errorf("error %v, notes %v:\n%s", err, notes, out)
	}
}

func TestAClassWithoutAFamilyGetsTheOneThatAssumesNothing(t *testing.T) {
	text := "{apiVersion: karpenter.k8s.aws/v1, kind: EC2NodeClass, metadata: {name: c}, spec: {amiSelectorTerms: [{id: ami-1}]}}"
	out, _, err := Run(Options{To: "v1beta1"}, []Source{{"f", []byte(text)}})
	if err != nil || !strings.Contains(string(out), "amiFamily: Custom") {
		t.Errorf("error %v:\n%s", err, out)
	}
}
