package ec2

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	awsec2 "github.com/aws/aws-sdk-go-v2/service/ec2"
	ec2types "github.com/aws/aws-sdk-go-v2/service/ec2/types"
	"github.com/aws/smithy-go"
	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"millwright/planner/ledger"
)

// clientAt returns a client of the server at url, without waits between retries.
func clientAt(t *testing.T, url string, transport http.RoundTripper, timeout time.Duration, r prometheus.Registerer) *Client {
	t.Helper()
	hc := &http.Client{Transport: transport}
	sdk := aws.Config{
		Region: "us-west-2", BaseEndpoint: aws.String(url), HTTPClient: hc,
		Credentials: credentials.NewStaticCredentialsProvider("id", "secret", ""),
		Retryer:     func() aws.Retryer { return quickRetryer{} },
	}
	c, err := New(context.Background(), Config{Cluster: "blue", AWS: &sdk, CallTimeout: timeout, Registerer: r})
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// quickRetryer retries twice at once.
type quickRetryer struct{}

func (quickRetryer) IsErrorRetryable(error) bool                  { return true }
func (quickRetryer) MaxAttempts() int                             { return 3 }
func (quickRetryer) RetryDelay(int, error) (time.Duration, error) { return 0, nil }
func (quickRetryer) GetInitialToken() func(error) error           { return func(error) error { return nil } }
func (quickRetryer) GetRetryToken(context.Context, error) (func(error) error, error) {
	return func(error) error { return nil }, nil
}

func ec2Error(status int, code, message string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(status)
		fmt.Fprintf(w, `<Response><Errors><Error><Code>%s</Code><Message>%s</Message></Error></Errors><RequestID>r</RequestID></Response>`, code, message)
	}
}

func fleetInput() *awsec2.CreateFleetInput {
	return &awsec2.CreateFleetInput{
		ClientToken: aws.String("token"), Type: ec2types.FleetTypeInstant,
		LaunchTemplateConfigs: []ec2types.FleetLaunchTemplateConfigRequest{{LaunchTemplateSpecification: &ec2types.FleetLaunchTemplateSpecificationRequest{LaunchTemplateId: aws.String("lt-1"), Version: aws.String("1")}}},
		TargetCapacitySpecification: &ec2types.TargetCapacitySpecificationRequest{
			TotalTargetCapacity: aws.Int32(1), DefaultTargetCapacityType: ec2types.DefaultTargetCapacityTypeSpot,
		},
	}
}

func hangUp(w http.ResponseWriter, _ *http.Request) { panic(http.ErrAbortHandler) }

func TestClassify(t *testing.T) {
	cases := map[string]struct {
		handler          http.HandlerFunc
		reading, writing Class
	}{
		"throttled":                   {ec2Error(503, "RequestLimitExceeded", "Request limit exceeded."), Transient, Transient},
		"throttled by status":         {ec2Error(429, "Strange", "slow down"), Transient, Transient},
		"internal error":              {ec2Error(500, "InternalError", "oops"), Transient, UnknownOutcome},
		"unavailable":                 {ec2Error(503, "Unavailable", "maintenance"), Transient, UnknownOutcome},
		"unknown code with 5xx":       {ec2Error(502, "Odd", "gateway"), Transient, UnknownOutcome},
		"5xx without a body":          {func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(504) }, Transient, UnknownOutcome},
		"connection lost":             {hangUp, Transient, UnknownOutcome},
		"answer cut off":              {cutOff, Transient, UnknownOutcome},
		"answer that is no XML":       {func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "<html>proxy") }, Transient, UnknownOutcome},
		"unknown instance":            {ec2Error(400, "InvalidInstanceID.NotFound", "The instance ID 'i-1' does not exist"), NotFound, NotFound},
		"unknown template":            {ec2Error(400, "InvalidLaunchTemplateId.NotFound", "no"), NotFound, NotFound},
		"token with other parameters": {ec2Error(400, "IdempotentParameterMismatch", "no"), ParameterMismatch, ParameterMismatch},
		"no capacity":                 {ec2Error(400, "InsufficientInstanceCapacity", "no"), NoCapacity, NoCapacity},
		"spot role":                   {ec2Error(403, "AuthFailure.ServiceLinkedRoleCreationNotPermitted", "no"), NoCapacity, NoCapacity},
		"forbidden":                   {ec2Error(403, "UnauthorizedOperation", "no"), Permanent, Permanent},
		"dry run":                     {ec2Error(412, "DryRunOperation", "would have succeeded"), DryRunOK, DryRunOK},
		"profile too new":             {ec2Error(400, "InvalidParameterValue", "Value (x) for parameter iamInstanceProfile.name is invalid. Invalid IAM Instance Profile name"), Transient, Transient},
		"bad parameter":               {ec2Error(400, "InvalidParameterValue", "no"), Permanent, Permanent},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			srv := httptest.NewServer(c.handler)
			defer srv.Close()
			client := clientAt(t, srv.URL, http.DefaultTransport, time.Minute, nil)
			_, err := client.DescribeSubnets(context.Background(), subnetTerms("x"))
			if got := Classify(err); got != c.reading {
				t.Errorf("reading call: %s, want %s (%v)", got, c.reading, err)
			}
			_, err = client.CreateFleet(context.Background(), fleetInput())
			if got := Classify(err); got != c.writing {
				t.Errorf("changing call: %s, want %s (%v)", got, c.writing, err)
			}
			if got := Classify(fmt.Errorf("around: %w", err)); got != c.writing {
				t.Errorf("wrapped: %s", got)
			}
		})
	}
}

func cutOff(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Content-Length", "1000")
	fmt.Fprint(w, "<CreateFleetResponse><fleetId>fleet-1")
}

func TestClassifySilence(t *testing.T) {
	hang := make(chan struct{})
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { <-hang }))
	defer srv.Close()
	defer close(hang)
	slow := clientAt(t, srv.URL, http.DefaultTransport, 20*time.Millisecond, nil)
	if _, err := slow.CreateFleet(context.Background(), fleetInput()); Classify(err) != UnknownOutcome {
		t.Errorf("own deadline: %s (%v)", Classify(err), err)
	}
	if _, err := slow.DescribeInstances(context.Background(), []string{"i-1"}); Classify(err) != Transient {
		t.Errorf("own deadline of a reading call: %s (%v)", Classify(err), err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if _, err := slow.CreateFleet(ctx, fleetInput()); Classify(err) != UnknownOutcome {
		t.Errorf("caller gone: %s (%v)", Classify(err), err)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	nobody := "http://" + l.Addr().String()
	l.Close()
	if _, err := clientAt(t, nobody, http.DefaultTransport, time.Minute, nil).CreateFleet(context.Background(), fleetInput()); Classify(err) != Transient {
		t.Errorf("connection refused, so nothing was sent: %s (%v)", Classify(err), err)
	}
	if Classify(nil) != "" || Classify(errors.New("odd")) != Permanent {
		t.Error("nil or unknown errors")
	}
}

func TestCreateFleetIsSentOnce(t *testing.T) {
	var calls atomic.Int32
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		calls.Add(1)
		ec2Error(500, "InternalError", "oops")(w, r)
	}))
	defer srv.Close()
	reg := prometheus.NewRegistry()
	c := clientAt(t, srv.URL, http.DefaultTransport, time.Minute, reg)
	_, _ = c.CreateFleet(context.Background(), fleetInput())
	if calls.Load() != 1 {
		t.Errorf("sent %d times", calls.Load())
	}
	_, _ = c.DescribeSubnets(context.Background(), subnetTerms("x"))
	if calls.Load() != 4 {
		t.Errorf("a reading call is tried three times, got %d", calls.Load()-1)
	}
	want := `
		# HELP millwright_aws_calls_total AWS calls by action and outcome: ok or the class of the error.
		# TYPE millwright_aws_calls_total counter
		millwright_aws_calls_total{action="ec2:CreateFleet",outcome="parameter-mismatch"} 0
		millwright_aws_calls_total{action="ec2:CreateFleet",outcome="permanent"} 0
		millwright_aws_calls_total{action="ec2:CreateFleet",outcome="transient"} 0
		millwright_aws_calls_total{action="ec2:CreateFleet",outcome="unknown-outcome"} 1
		millwright_aws_calls_total{action="ec2:DescribeSubnets",outcome="parameter-mismatch"} 0
		millwright_aws_calls_total{action="ec2:DescribeSubnets",outcome="permanent"} 0
		millwright_aws_calls_total{action="ec2:DescribeSubnets",outcome="transient"} 1
		millwright_aws_calls_total{action="ec2:DescribeSubnets",outcome="unknown-outcome"} 0
	`
	failed := `
		# HELP karpenter_cloudprovider_errors_total Failures of these calls, by the name that Karpenter has for the error, if it has one.
		# TYPE karpenter_cloudprovider_errors_total counter
		karpenter_cloudprovider_errors_total{controller="nodeclaim.lifecycle",error="",method="Create",provider="aws"} 1
	`
	if err := testutil.GatherAndCompare(reg, strings.NewReader(failed), "karpenter_cloudprovider_errors_total"); err != nil {
		t.Error(err)
	}
	if err := testutil.GatherAndCompare(reg, strings.NewReader(want), "millwright_aws_calls_total"); err != nil {
		t.Error(err)
	}
}

func TestCreateFleetRefusals(t *testing.T) {
	c := clientAt(t, "http://127.0.0.1:1", http.DefaultTransport, time.Second, nil)
	in := fleetInput()
	in.ClientToken = nil
	if _, err := c.CreateFleet(context.Background(), in); err == nil || !strings.Contains(err.Error(), "no client token") {
		t.Errorf("without token: %v", err)
	}
	in = fleetInput()
	in.Type = ec2types.FleetTypeMaintain
	if _, err := c.CreateFleet(context.Background(), in); err == nil || !strings.Contains(err.Error(), "not instant") {
		t.Errorf("not instant: %v", err)
	}
}

func TestFleetFailure(t *testing.T) {
	ice := FleetError{Code: "InsufficientInstanceCapacity", Message: "none", InstanceType: "m5.large", Zone: "a", CapacityType: "spot"}
	ice2 := FleetError{Code: "UnfulfillableCapacity", Message: "none", InstanceType: "c5.large", Zone: "b", CapacityType: "spot"}
	denied := FleetError{Code: "UnauthorizedOperation", Message: "You are not authorized; explicit deny in a service control policy"}
	cases := map[string]struct {
		result FleetResult
		class  Class
		reason string
		text   string
		marked int
	}{
		"all without capacity":   {FleetResult{Errors: []FleetError{ice, ice2, ice}}, NoCapacity, "InsufficientCapacity", "with fleet error(s), InsufficientInstanceCapacity: none; UnfulfillableCapacity: none", 2},
		"one for another reason": {FleetResult{Errors: []FleetError{ice, denied}}, Permanent, "Unauthorized", "service control policy", 1},
		"throttled inside":       {FleetResult{Errors: []FleetError{{Code: "RequestLimitExceeded", Message: "x"}}}, Transient, "RequestLimitExceeded", "", 0},
		"template gone":          {FleetResult{Errors: []FleetError{{Code: "InvalidLaunchTemplateId.NotFound", Message: "x"}}}, NotFound, "LaunchTemplateNotFound", "", 0},
		"nothing at all":         {FleetResult{}, NoCapacity, "InsufficientCapacity", "no instance and gave no error", 0},
		"profile not there yet":  {FleetResult{Errors: []FleetError{{Code: "InvalidParameterValue", Message: "Value (p) for parameter iamInstanceProfile.name is invalid. Invalid IAM Instance Profile name"}}}, Transient, "InstanceProfileNameInvalid", "", 0},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			f := c.result.Failure()
			if f == nil || f.Class != c.class || f.Reason != c.reason || !strings.Contains(f.Message, c.text) || len(f.Unavailable) != c.marked {
				t.Errorf("got %+v", f)
			}
			if Classify(fmt.Errorf("launch: %w", f)) != c.class {
				t.Error("Classify does not agree")
			}
		})
	}
	launched := FleetResult{Instances: []Instance{{ID: "i-1"}}, Errors: []FleetError{ice2, ice}}
	if launched.Failure() != nil {
		t.Error("a fleet with an instance has not failed")
	}
	want := []ledger.FailedOffering{
		{InstanceType: "c5.large", Zone: "b", CapacityType: "spot", Code: "UnfulfillableCapacity"},
		{InstanceType: "m5.large", Zone: "a", CapacityType: "spot", Code: "InsufficientInstanceCapacity"},
	}
	if d := cmp.Diff(want, launched.Unavailable()); d != "" {
		t.Error(d)
	}
}

func TestReasonFor(t *testing.T) {
	cases := map[string]struct{ code, text, reason string }{
		"first match wins": {"AuthFailure.ServiceLinkedRoleCreationNotPermitted", "x", "SpotSLRCreationFailed"},
		"image":            {"UnauthorizedOperation", "Not authorized for images: [ami-1]", "AMIAuthorizationFailure"},
		"plain denial":     {"AccessDenied", "x", "Unauthorized"},
		"credentials":      {"AuthFailure", "x", "Unauthorized"},
		"disabled region":  {"AuthFailure", "AWS was not able to validate the provided access credentials", "Unauthorized"},
		"not opted in":     {"OptInRequired", "You are not subscribed to this service.", "OptInRequired"},
		"networks":         {"InvalidParameter", "Security group sg-1 and subnet subnet-1 belong to different networks.", "SecurityGroupSubnetVPCMismatch"},
		"other parameter":  {"InvalidParameter", "x", "LaunchFailed"},
		"user data":        {"InvalidUserData.Malformed", "User data is limited to 16384 bytes", "UserDataSizeLimitExceeded"},
		"malformed image":  {"InvalidAMIID.Malformed", "x", "InvalidAMIID"},
		"no image":         {"InvalidAMIID.NotFound", "x", "AMINotFound"},
		"free tier":        {"InvalidParameterCombination", "The specified instance type is not eligible for Free Tier.", "FreeTierIneligible"},
		"verification":     {"PendingVerification", "x", "AccountPendingVerification"},
		"spot quota":       {"MaxSpotInstanceCountExceeded", "x", "SpotQuotaExceeded"},
		"vCPU quota":       {"VcpuLimitExceeded", "x", "VCPULimitExceeded"},
		"fleet quota":      {"MaxFleetCountExceeded", "x", "FleetQuotaExceeded"},
		"addresses":        {"InsufficientFreeAddressesInSubnet", "x", "InsufficientFreeAddressesInSubnet"},
		"something else":   {"Odd", "x", "LaunchFailed"},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			if got, _ := ReasonFor(c.code, c.text); got != c.reason {
				t.Errorf("got %s, want %s", got, c.reason)
			}
		})
	}
	if f := FailureOf(&CallError{Action: "ec2:CreateFleet", Mutating: true, Err: context.DeadlineExceeded}); f.Class != UnknownOutcome || f.Reason != "LaunchFailed" {
		t.Errorf("%+v", f)
	}
}

// TestAllSpotIsUnavailableWithoutItsRole, wherever EC2 says so, and whether or not it names an offering.
func TestAllSpotIsUnavailableWithoutItsRole(t *testing.T) {
	want := []ledger.FailedOffering{{CapacityType: "spot", Code: codeSpotRoleForbidden}}
	r := FleetResult{Errors: []FleetError{
		{Code: codeSpotRoleForbidden, InstanceType: "m5.large", Zone: "a", CapacityType: "spot"}, {Code: codeSpotRoleForbidden},
	}}
	if d := cmp.Diff(want, r.Unavailable()); d != "" {
		t.Error(d)
	}
	f := FailureOf(&CallError{Action: "ec2:CreateFleet", Mutating: true, Err: &smithy.GenericAPIError{Code: codeSpotRoleForbidden, Message: "no"}})
	if d := cmp.Diff(want, f.Unavailable); d != "" || f.Class != NoCapacity {
		t.Error(f.Class, d)
	}
}

// TestASubnetWithoutAddressesIsNamed once, and no offering: other subnets of the zone may have addresses.
func TestASubnetWithoutAddressesIsNamed(t *testing.T) {
	r := FleetResult{Errors: []FleetError{
		{Code: codeNoAddresses, InstanceType: "m5.large", Zone: "a", SubnetID: "subnet-0a", CapacityType: "spot"},
		{Code: codeNoAddresses, InstanceType: "c5.large", Zone: "a", SubnetID: "subnet-0a", CapacityType: "spot"},
		{Code: codeNoAddresses, InstanceType: "c5.large", Zone: "b", CapacityType: "spot"}, // EC2 does not say which
	}}
	want := []ledger.FailedOffering{
		{InstanceType: "c5.large", Zone: "b", CapacityType: "spot", Code: codeNoAddresses}, {Zone: "a", CapacityType: "spot", Code: codeNoAddresses, SubnetID: "subnet-0a"},
	}
	got := r.Unavailable()
	slices.SortFunc(got, func(a, b ledger.FailedOffering) int { return strings.Compare(b.InstanceType, a.InstanceType) })
	if d := cmp.Diff(want, got); d != "" {
		t.Error(d)
	}
	f := FailureOf(&CallError{Action: "ec2:CreateFleet", Mutating: true, Err: &smithy.GenericAPIError{Code: codeNoAddresses,
		Message: "There are not enough free addresses in subnet 'subnet-0a1b' to satisfy the requested number of instances."}})
	if f.Class != NoCapacity || len(f.Unavailable) != 1 || f.Unavailable[0].SubnetID != "subnet-0a1b" {
		t.Errorf("of the whole call: %+v", f)
	}
}

func TestTheLimitOfLaunchTemplatesIsKnownByAnyCode(t *testing.T) {
	cases := []struct {
		action, code, message string
		want                  bool
	}{
		{"ec2:CreateLaunchTemplate", "LaunchTemplateLimitExceeded", "", true},
		{"ec2:CreateLaunchTemplate", "ResourceLimitExceeded", "", true},
		{"ec2:CreateLaunchTemplate", "ResourceCountLimitExceededException", "", true},
		{"ec2:CreateLaunchTemplate", "ServiceQuotaExceededException", "", true},
		{"ec2:CreateLaunchTemplate", "LimitExceededException", "You have reached the limit of launch templates", true},
		{"ec2:CreateLaunchTemplate", "Client.Unknown", "You have reached the maximum number of Launch Templates", true},
		{"ec2:CreateLaunchTemplate", "RequestLimitExceeded", "Request limit exceeded.", false},
		{"ec2:CreateLaunchTemplate", "LimitExceededException", "Rate exceeded", false},
		{"ec2:CreateLaunchTemplate", "InvalidLaunchTemplateName.AlreadyExistsException", "Launch template name already in use.", false},
		{"ec2:CreateFleet", "MaxFleetLimitExceeded", "", false},
	}
	for _, c := range cases {
		err := &CallError{Action: c.action, Mutating: true, Err: &smithy.GenericAPIError{Code: c.code, Message: c.message}}
		if got := IsTemplateLimit(err); got != c.want {
			t.Errorf("%s %s %q: %t", c.action, c.code, c.message, got)
		}
	}
	if IsTemplateLimit(errors.New("LimitExceeded")) {
		t.Error("what EC2 did not answer is its limit")
	}
}
