package ec2

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	awsec2 "github.com/aws/aws-sdk-go-v2/service/ec2"
	ec2types "github.com/aws/aws-sdk-go-v2/service/ec2/types"

	awsv1 "millwright/api/karpenteraws/v1"
)

// askAll makes every call of the Client that reads an answer of EC2, by action.
func askAll(ctx context.Context, c *Client) map[string]error {
	found := map[string]error{}
	fleet := fleetInput()
	fleet.ClientToken = aws.String("token")
	result, err := c.CreateFleet(ctx, fleet)
	found["CreateFleet"] = err
	if err == nil {
		result.Reserve(nil)
		result.Failure()
		result.Unavailable()
	}
	_, found["DescribeInstances by id"] = c.DescribeInstances(ctx, []string{"i-1", "i-2"})
	_, found["DescribeInstances by tag"] = c.DescribeInstancesByTags(ctx, map[string]string{"a": "b"})
	found["TerminateInstances"] = c.TerminateInstances(ctx, []string{"i-1", "i-2"})
	found["CreateTags"] = c.CreateTags(ctx, "i-1", map[string]string{"a": "b"})
	_, found["DescribeSubnets"] = c.DescribeSubnets(ctx, []awsv1.SubnetSelectorTerm{{ID: "subnet-1"}})
	_, found["DescribeSecurityGroups"] = c.DescribeSecurityGroups(ctx, []awsv1.SecurityGroupSelectorTerm{{ID: "sg-1"}})
	_, found["DescribeImages"] = c.DescribeImages(ctx, ImageQuery{IDs: []string{"ami-1"}})
	_, found["launch template"] = c.EnsureLaunchTemplate(ctx, LaunchTemplate{Name: "t", Data: &ec2types.RequestLaunchTemplateData{}, Tags: map[string]string{"a": "b"}})
	_, found["DescribeCapacityReservations"] = c.DescribeCapacityReservations(ctx, []awsv1.CapacityReservationSelectorTerm{{ID: "cr-1"}})
	_, found["SSM parameter"] = c.SSMParameter(ctx, "p")
	_, found["DescribeCluster"] = c.DescribeCluster(ctx)
	_, found["instance profile"] = c.InstanceProfile(ctx, "p")
	return found
}

// answers is a transport that answers every call with one body.
type answers struct {
	status int
	body   []byte
}

func (a answers) RoundTrip(r *http.Request) (*http.Response, error) {
	return &http.Response{StatusCode: a.status, Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1, Header: http.Header{"Content-Type": {"text/xml"}},
		Body: io.NopCloser(bytes.NewReader(a.body)), ContentLength: int64(len(a.body)), Request: r}, nil
}

// answered returns a client whose calls get one answer, and no budget: there is nobody to spare.
func answered(t *testing.T, status int, body []byte) *Client {
	c := clientAt(t, "http://aws.simulated", answers{status, body}, 0, nil)
	c.ec2 = awsec2.New(c.ec2.Options(), func(o *awsec2.Options) { o.APIOptions = nil })
	return c
}

// checkAnswers: whatever EC2 answers, each call ends, and its error has a class that a launch can be closed
// with.
func checkAnswers(t *testing.T, what string, status int, body []byte) {
	t.Helper()
	for call, err := range askAll(t.Context(), answered(t, status, body)) {
		if err == nil {
			continue
		}
		if class := Classify(err); class == "" {
			t.Errorf("%s: %s: %v has no class", what, call, err)
		}
		if f := FailureOf(err); f.Reason == "" || f.Message == "" {
			t.Errorf("%s: %s: %+v explains nothing", what, call, f)
		}
	}
}

// recording keeps the answers of a simulated account.
type recording struct {
	http.RoundTripper
	bodies map[string][]byte
}

func (r *recording) RoundTrip(req *http.Request) (*http.Response, error) {
	var sent []byte
	if req.Body != nil {
		var err error
		if sent, err = io.ReadAll(req.Body); err != nil {
			return nil, err
		}
		req.Body = io.NopCloser(bytes.NewReader(sent))
	}
	resp, err := r.RoundTripper.RoundTrip(req)
	if err != nil {
		return nil, err
	}
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		return nil, err
	}
	action := regexp.MustCompile(`Action=(\w+)`).FindString(string(sent)) + req.Header.Get("X-Amz-Target") + req.URL.Path
	r.bodies[action] = body
	resp.Body = io.NopCloser(bytes.NewReader(body))
	return resp, nil
}

// recorded are answers of a simulated account with an instance, by action.
func recorded(t *testing.T) map[string][]byte {
	t.Helper()
	ctx, a := context.Background(), newAccount(t)
	r := &recording{RoundTripper: a.sim.Transport(), bodies: map[string][]byte{}}
	a.Client = clientAt(t, "http://aws.simulated", r, 0, nil)
	id := a.launch(t, "one").Instances[0].ID
	if _, err := a.DescribeInstances(ctx, []string{id}); err != nil {
		t.Fatal(err)
	}
	if _, err := a.DescribeImages(ctx, ImageQuery{Name: "*", Owners: []string{"amazon"}}); err != nil {
		t.Fatal(err)
	}
	if _, err := a.DescribeCluster(ctx); err != nil {
		t.Fatal(err)
	}
	if err := a.TerminateInstances(ctx, []string{id}); err != nil {
		t.Fatal(err)
	}
	if _, err := a.DescribeInstances(ctx, []string{"i-0123456789abcdef0"}); err != nil {
		t.Fatal(err)
	}
	return r.bodies
}

var (
	leaf    = regexp.MustCompile(`<(\w+)>[^<]*</(\w+)>`)
	element = regexp.MustCompile(`<(\w+)[ >]`)
)

// mutilated returns variants of an answer: each kind of element left out, empty, or not what it should be;
// and the answer cut off.
func mutilated(body []byte) map[string][]byte {
	out := map[string][]byte{"whole": body, "cut": body[:len(body)/2], "empty": nil, "of another kind": []byte(`{"message":"no"}`)}
	var names []string
	for _, m := range element.FindAllSubmatch(body, -1) {
		names = append(names, string(m[1]))
	}
	slices.Sort(names)
	for _, name := range slices.Compact(names) {
		all := regexp.MustCompile(`(?s)<` + name + `[ >].*?</` + name + `>`)
		out["without "+name] = all.ReplaceAll(body, nil)
		out["empty "+name] = all.ReplaceAll(body, fmt.Appendf(nil, "<%s/>", name))
		if leaf.Match(all.Find(body)) {
			out["other "+name] = all.ReplaceAll(body, fmt.Appendf(nil, "<%s>ä -1</%s>", name, name))
		}
	}
	return out
}

// Another EC2 than the one we know leaves fields out, or fills them otherwise.
func TestNoFieldOfAnAnswerIsTakenForGranted(t *testing.T) {
	bodies := recorded(t)
	if len(bodies) < 8 {
		t.Fatalf("%d answers recorded", len(bodies))
	}
	for action, body := range bodies {
		if len(body) > 20_000 { // the first of many of a kind
			body = body[:20_000]
		}
		for what, variant := range mutilated(body) {
			status := http.StatusOK
			if strings.Contains(string(body), "<Errors>") {
				status = http.StatusBadRequest
			}
			checkAnswers(t, action+" "+what, status, variant)
		}
	}
}

// Pages that go round end with an error, not with what came so far.
func TestPagesThatGoRound(t *testing.T) {
	found := askAll(t.Context(), answered(t, http.StatusOK, []byte(`<Response><nextToken>again</nextToken></Response>`)))
	for _, call := range []string{"DescribeInstances by id", "DescribeInstances by tag", "DescribeSubnets", "DescribeSecurityGroups", "DescribeImages", "DescribeCapacityReservations"} {
		if err := found[call]; err == nil || !strings.Contains(err.Error(), "the token of page 2 came before") || Classify(err) != Transient {
			t.Errorf("%s: %v", call, err)
		}
	}
	_, err := answered(t, http.StatusOK, []byte(`<Response><nextToken>again</nextToken></Response>`)).DescribeLaunchTemplates(t.Context(), nil)
	if err == nil || !strings.Contains(err.Error(), "came before") {
		t.Errorf("launch templates: %v", err)
	}
	marker := `<Response><ListInstanceProfilesResult><IsTruncated>true</IsTruncated><Marker>again</Marker></ListInstanceProfilesResult></Response>`
	if _, err := answered(t, http.StatusOK, []byte(marker)).InstanceProfiles(t.Context(), "/karpenter/"); err == nil || !strings.Contains(err.Error(), "came before") {
		t.Errorf("instance profiles: %v", err)
	}
	var p Pages
	for i := range pagesMax {
		if err := p.Next("ec2:DescribeImages", aws.String(fmt.Sprint(i))); err != nil {
			t.Fatal(err)
		}
	}
	if err := p.Next("ec2:DescribeImages", aws.String("more")); err == nil {
		t.Error("there is no end of pages")
	}
	if err := p.Next("ec2:DescribeImages", nil); err != nil {
		t.Errorf("the last page: %v", err)
	}
}

func FuzzAnswers(f *testing.F) {
	f.Add(200, []byte(`<CreateFleetResponse><fleetInstanceSet><item><instanceIds><item>i-1</item></instanceIds></item></fleetInstanceSet></CreateFleetResponse>`))
	f.Add(200, []byte(`<DescribeInstancesResponse><reservationSet><item><instancesSet><item/></instancesSet></item></reservationSet></DescribeInstancesResponse>`))
	f.Add(200, []byte(`<CreateFleetResponse><errorSet><item/></errorSet></CreateFleetResponse>`))
	f.Add(503, []byte(`<Response><Errors><Error><Code>RequestLimitExceeded</Code></Error></Errors></Response>`))
	f.Add(400, []byte(`<Response/>`))
	f.Add(200, []byte(`<Response><nextToken>1</nextToken></Response>`))
	f.Fuzz(func(t *testing.T, status int, body []byte) {
		checkAnswers(t, "fuzzed", 100+(status&0x7fffffff)%500, body)
	})
}
