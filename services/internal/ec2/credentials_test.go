package ec2

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
)

// Credentials come from an agent on the node, whose refusals have codes that EC2's have, too.
func TestARefusalOfCredentialsIsNoAnswerOfEC2(t *testing.T) {
	a := newAccount(t)
	id := a.launch(t, "token").Instances[0].ID
	in := a.launchInput(t)
	in.ClientToken = aws.String("another")
	cloud := httptest.NewServer(a.sim)
	defer cloud.Close()
	var refusal atomic.Pointer[string]
	agent := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		if code := refusal.Load(); code != nil {
			w.WriteHeader(http.StatusForbidden)
			fmt.Fprintf(w, `{"code": %q, "message": "there is no association"}`, *code)
			return
		}
		fmt.Fprintf(w, `{"AccessKeyId": "id", "SecretAccessKey": "secret", "Token": "", "Expiration": %q}`, time.Now().Add(time.Hour).UTC().Format(time.RFC3339))
	}))
	defer agent.Close()
	for name, value := range map[string]string{
		"AWS_ACCESS_KEY_ID": "", "AWS_SECRET_ACCESS_KEY": "", "AWS_PROFILE": "", "AWS_WEB_IDENTITY_TOKEN_FILE": "", "AWS_CONFIG_FILE": "/dev/null",
		"AWS_SHARED_CREDENTIALS_FILE": "/dev/null", "AWS_EC2_METADATA_DISABLED": "true", "AWS_REGION": "us-west-2", "AWS_ENDPOINT_URL": cloud.URL,
		"AWS_CONTAINER_CREDENTIALS_FULL_URI": agent.URL, "AWS_CONTAINER_CREDENTIALS_RELATIVE_URI": "",
	} {
		t.Setenv(name, value)
	}
	client, err := New(t.Context(), Config{Cluster: "blue", Version: "test"})
	if err != nil {
		t.Fatal(err)
	}

	for _, code := range []string{"ResourceNotFoundException", "AccessDenied", "UnauthorizedOperation", "InternalFailure"} {
		refusal.Store(&code)
		if found, err := client.DescribeInstances(t.Context(), []string{id}); err == nil {
			t.Errorf("%s: describing the instance found %v and no error", code, found)
		}
		if err := client.TerminateInstances(t.Context(), []string{id}); err == nil {
			t.Errorf("%s: the instance counts as ended", code)
		}
		_, err := client.CreateFleet(t.Context(), in)
		if class := Classify(err); class != Transient {
			t.Errorf("%s: a launch for which there were no credentials is %s, want %s", code, class, Transient)
		}
		if err := client.DryRunFleet(t.Context(), in); IsUnauthorized(err) || Classify(err) != Transient {
			t.Errorf("%s: %v counts as what EC2 says of the permission", code, err)
		}
		f := FailureOf(err)
		if f.Reason != "Unauthorized" || !strings.Contains(f.Message, "no credentials") || !strings.Contains(f.Message, code+": there is no association") {
			t.Errorf("%s: %s: %q does not say that there were no credentials, and why", code, f.Reason, f.Message)
		}
	}
	refusal.Store(nil)
	if found, err := client.DescribeInstances(t.Context(), []string{id}); err != nil || len(found) != 1 || found[0].Ending() {
		t.Errorf("with credentials: %v, %v", found, err)
	}
}
