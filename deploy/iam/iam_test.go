package iam

import (
	"encoding/json"
	"os"
	"strings"
	"testing"
)

// What IAM counts of a managed policy is at most 6,144 letters; names of clusters have at most 100.
const managedMax = 6144

func TestEachPolicyFitsAManagedPolicy(t *testing.T) {
	long := Account{Cluster: strings.Repeat("c", 100), Region: "us-gov-west-1", Account: "111122223333",
		Bucket: strings.Repeat("b", 63), Prefix: strings.Repeat("p", 900), KMSKey: "arn:aws-us-gov:kms:us-gov-west-1:111122223333:key/" + strings.Repeat("k", 36)}
	for _, name := range namesOf(All, long) {
		d, err := policy([]string{name}, long)
		if err != nil {
			t.Fatal(err)
		}
		text, err := encode(d, "")
		if err != nil || len(text) > managedMax {
			t.Errorf("%s: %d letters, %v", name, len(text), err)
		}
		if name := policyName(name, long); len(name) > 128 {
			t.Errorf("%s has %d letters", name, len(name))
		}
	}
}

func TestPoliciesAreFilledInForEachPartition(t *testing.T) {
	for region, partition := range map[string]string{"us-west-2": "aws", "cn-north-1": "aws-cn", "us-gov-east-1": "aws-us-gov"} {
		d, err := Policy(All, Account{Cluster: "demo", Region: region, Account: "111122223333"})
		if err != nil {
			t.Fatal(err)
		}
		text, err := d.JSON()
		if err != nil {
			t.Fatal(err)
		}
		if strings.ContainsAny(strings.NewReplacer("{\n", "", "{}", "").Replace(string(text)), "{") {
			t.Errorf("%s: something is not filled in:\n%s", region, text)
		}
		for _, want := range []string{"arn:" + partition + ":ec2:" + region + ":111122223333:instance/*", "kubernetes.io/cluster/demo",
			"arn:" + partition + ":iam::111122223333:role/KarpenterNodeRole-demo", "arn:" + partition + ":sqs:" + region + ":111122223333:demo"} {
			if !strings.Contains(string(text), want) {
				t.Errorf("%s: %s is missing", region, want)
			}
		}
	}
}

// A name is put into patterns, and must not be one.
func TestNamesThatWouldWidenAPolicyAreRefused(t *testing.T) {
	for what, a := range map[string]Account{
		"a cluster named *":      {Cluster: "*", Region: "us-west-2", Account: "1"},
		"a queue with a ?":       {Cluster: "c", Region: "us-west-2", Account: "1", Queue: "q?"},
		"a prefix of all":        {Cluster: "c", Region: "us-west-2", Account: "1", Bucket: "b", Prefix: "*/"},
		"a bucket of all names":  {Cluster: "c", Region: "us-west-2", Account: "1", Bucket: "*"},
		"a key by its alias":     {Cluster: "c", Region: "us-west-2", Account: "1", Bucket: "b", KMSKey: "alias/log"},
		"a role of all names":    {Cluster: "c", Region: "us-west-2", Account: "1", NodeRole: "*"},
		"a role with a variable": {Cluster: "c", Region: "us-west-2", Account: "1", NodeRole: "a${aws:username}"},
		"all accounts":           {Cluster: "c", Region: "us-west-2", Account: "*"},
		"all partitions":         {Cluster: "c", Region: "us-west-2", Account: "1", Partition: "*"},
		"no account":             {Cluster: "c", Region: "us-west-2"},
		"no region":              {Cluster: "c", Account: "1"},
		"no cluster":             {Region: "us-west-2", Account: "1"},
	} {
		if d, err := Policy(lifecycle, a); err == nil {
			t.Errorf("%s: %v", what, d)
		}
	}
}

func TestCloudFormationAndTerraformHoldThePoliciesOfThoseWhoCall(t *testing.T) {
	a := Account{Cluster: "demo"}
	text, err := CloudFormation(All, a)
	if err != nil {
		t.Fatal(err)
	}
	stack := struct {
		Resources map[string]struct {
			Properties struct {
				PolicyDocument struct {
					Sub string `json:"Fn::Sub"`
				}
			}
		}
	}{}
	if err := json.Unmarshal(text, &stack); err != nil || len(stack.Resources) != 3 {
		t.Fatalf("%v\n%s", err, text)
	}
	for name, r := range stack.Resources {
		var d Document
		if err := json.Unmarshal([]byte(r.Properties.PolicyDocument.Sub), &d); err != nil || len(d.Statement) == 0 {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := Terraform(All, a); err == nil {
		t.Error("Terraform does without a region")
	}
	a.Region = "us-west-2"
	if text, err = Terraform(lifecycle, a); err != nil || !strings.Contains(string(text), "${data.aws_caller_identity.millwright.account_id}") {
		t.Errorf("%v\n%s", err, text)
	}
	if _, err := Terraform("disruptor", a); err == nil {
		t.Error("disruptor needs a policy")
	}
}

// Whoever archives may never delete, and whoever only reads may not write.
func TestTheArchiveInABucketIsWrittenByTheArchiverAlone(t *testing.T) {
	a := Account{Cluster: "demo", Region: "us-west-2", Account: "111122223333", Bucket: "logs", Prefix: "millwright/"}
	for service, want := range map[string]string{
		"lifecycle": "s3:ListBucket s3:GetObject s3:AbortMultipartUpload s3:PutObject s3:PutObjectRetention", "console": "s3:ListBucket s3:GetObject", "watcher": "",
	} {
		d, err := Policy(service, a)
		if err != nil {
			t.Fatal(err)
		}
		var actions []string
		for _, s := range d.Statement {
			for _, action := range s.Action {
				if strings.HasPrefix(action, "s3:") {
					actions = append(actions, action)
				}
			}
			for _, r := range s.Resource {
				if strings.Contains(r, ":s3:::") && r != "arn:aws:s3:::logs" && r != "arn:aws:s3:::logs/millwright/*" {
					t.Errorf("%s: %s", service, r)
				}
			}
		}
		if got := strings.Join(actions, " "); got != want {
			t.Errorf("%s: %s, want %s", service, got, want)
		}
	}
	a.KMSKey = "arn:aws:kms:us-west-2:111122223333:key/1"
	if d, err := Policy("console", a); err != nil || len(d.Statement) != 3 || d.Statement[2].Resource[0] != a.KMSKey {
		t.Errorf("%v, %v", d, err)
	}
}

// One key signs, and lifecycle alone has it do so.
func TestTheLogIsSignedByLifecycleAlone(t *testing.T) {
	a := Account{Cluster: "demo", Region: "us-west-2", Account: "111122223333", SigningKey: "arn:aws:kms:us-west-2:111122223333:key/2"}
	for service, want := range map[string]int{"lifecycle": 1, All: 1, "console": 0, "watcher": 0} {
		d, err := Policy(service, a)
		if err != nil {
			t.Fatal(err)
		}
		n := 0
		for _, s := range d.Statement {
			if s.Sid == "SignLog" && len(s.Resource) == 1 && s.Resource[0] == a.SigningKey {
				n++
			}
		}
		if n != want {
			t.Errorf("%s: %d statements, want %d", service, n, want)
		}
	}
	a.SigningKey = "alias/log"
	if _, err := Policy("lifecycle", a); err == nil {
		t.Error("a policy names no ARN")
	}
}

func TestThePageOfStatementsIsUpToDate(t *testing.T) {
	page, err := os.ReadFile("../../docs/aws-policies.md")
	if err != nil || string(page) != Table() {
		t.Errorf("docs/aws-policies.md is stale (%v): make generate", err)
	}
}
