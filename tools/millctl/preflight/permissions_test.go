package preflight

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

	awsv1 "millwright/api/karpenteraws/v1"
	"millwright/tools/ec2sim/sim"
)

// Accounts have no subnet with the tag of the examples, and some no images of EKS. A launch is tried with
// what an EC2NodeClass has found.
func TestALaunchIsTriedWithWhatAClassHasFound(t *testing.T) {
	class := func(name string, status awsv1.EC2NodeClassStatus) awsv1.EC2NodeClass {
		return awsv1.EC2NodeClass{TypeMeta: metav1.TypeMeta{APIVersion: "karpenter.k8s.aws/v1", Kind: "EC2NodeClass"}, ObjectMeta: metav1.ObjectMeta{Name: name}, Status: status}
	}
	list := map[string]any{"apiVersion": "karpenter.k8s.aws/v1", "kind": "EC2NodeClassList", "items": []any{
		class("b", awsv1.EC2NodeClassStatus{AMIs: []awsv1.AMI{{ID: "ami-b"}}, Subnets: []awsv1.Subnet{{ID: "subnet-b"}}}),
		class("a", awsv1.EC2NodeClassStatus{Subnets: []awsv1.Subnet{{ID: "subnet-a"}}}),
		map[string]any{"apiVersion": "karpenter.k8s.aws/v1", "kind": "EC2NodeClass", "metadata": map[string]any{"name": "0", "generation": "none"}},
	}}
	kube := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		answer, known := map[string]any{"/version": map[string]string{"major": "1", "minor": "36"}, "/apis/karpenter.k8s.aws/v1/ec2nodeclasses": list}[r.URL.Path]
		if !known {
			http.NotFound(w, r)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		if err := json.NewEncoder(w).Encode(answer); err != nil {
			t.Error(err)
		}
	}))
	defer kube.Close()
	account := sim.New(sim.Config{ClusterName: "blue", Region: "us-west-2", Settings: sim.DefaultSettings()})
	cfg := Config{Kube: &rest.Config{Host: kube.URL}, AWS: &aws.Config{
		Region: "us-west-2", BaseEndpoint: aws.String("http://aws.simulated"), HTTPClient: &http.Client{Transport: account.Transport()},
		Credentials: credentials.NewStaticCredentialsProvider("id", "secret", "")}}

	cfg.Cluster = "green" // no subnet is tagged as this cluster's
	if a := newAccount(t.Context(), cfg); a.image != "ami-b" || a.subnet != "subnet-b" {
		t.Errorf("a launch is tried from image %q in subnet %q, want those of class b", a.image, a.subnet)
	}
	cfg.Cluster = "blue"
	if a := newAccount(t.Context(), cfg); a.image == "" || a.image == "ami-b" || a.subnet == "" || a.subnet == "subnet-b" {
		t.Errorf("a launch is tried from image %q in subnet %q, want EKS's in one with the tag", a.image, a.subnet)
	}
	classes, unread, err := listNodeClasses(t.Context(), cfg)
	if err != nil || len(classes) != 2 || classes[0].Name != "a" || len(unread) != 1 || unread["0"] == nil {
		t.Errorf("classes %v, unread %v: %v", classes, unread, err)
	}
}

// What is no answer of AWS is not quoted: neither a page for people nor what the decoder thinks of it.
func TestAnAnswerThatIsNotOfAWS(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(http.StatusBadGateway)
		fmt.Fprint(w, "<!doctype html>\n<html lang=en><title>Bad Gateway</title>")
	}))
	defer server.Close()
	cfg := aws.Config{Region: "us-west-2", BaseEndpoint: aws.String(server.URL), Credentials: credentials.NewStaticCredentialsProvider("id", "secret", ""),
		Retryer: func() aws.Retryer { return aws.NopRetryer{} }}
	a := &account{cfg: Config{AWS: &cfg}, ec2: ec2.NewFromConfig(cfg)}
	for _, action := range []string{"ec2:DescribeSubnets", "pricing:GetProducts", "iam:GetInstanceProfile"} {
		if v, why := a.try(t.Context(), action); v != Skipped || why != "HTTP status 502 without an error of AWS" {
			t.Errorf("%s: %s, %s", action, v, why)
		}
	}
}
