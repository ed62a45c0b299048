package ec2

import (
	"bytes"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	ec2types "github.com/aws/aws-sdk-go-v2/service/ec2/types"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	karpawsv1 "millwright/api/karpenteraws/v1"
	"millwright/tools/ec2sim/simclient"
)

// answers is a transport that answers every call with one body.
type answers struct {
	status int
	body   []byte
}

func (a answers) RoundTrip(r *http.Request) (*http.Response, error) {
	kind := "text/xml"
	if r.Header.Get("X-Amz-Target") != "" {
		kind = "application/x-amz-json-1.1"
	}
	return &http.Response{StatusCode: a.status, Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1, Header: http.Header{"Content-Type": {kind}},
		Body: io.NopCloser(bytes.NewReader(a.body)), ContentLength: int64(len(a.body)), Request: r}, nil
}

// answered returns a rig, with a class that selects capacity reservations, all of whose calls get one answer.
func answered(t *testing.T, status int, body []byte) *rig {
	r := newRig(t, func(cfg *Config) {
		cfg.EC2, cfg.Pricing = Clients(aws.Config{
			Region: "us-west-2", BaseEndpoint: aws.String("http://aws.simulated"), HTTPClient: &http.Client{Transport: answers{status, body}},
			Credentials: credentials.NewStaticCredentialsProvider("id", "secret", ""), Retryer: func() aws.Retryer { return aws.NopRetryer{} },
		})
	})
	nc := &karpawsv1.EC2NodeClass{ObjectMeta: metav1.ObjectMeta{Name: "default"}}
	nc.Spec.CapacityReservationSelectorTerms = []karpawsv1.CapacityReservationSelectorTerm{{ID: "cr-1"}}
	nc.Status.CapacityReservations = []karpawsv1.CapacityReservation{{ID: "cr-1", InstanceType: "m5.large", AvailabilityZone: "us-west-2a"}}
	r.setClasses(nc)
	return r
}

// Pages that go round end a poll with an error: half an answer is none.
func TestPagesThatGoRound(t *testing.T) {
	xml := answered(t, http.StatusOK, []byte(`<Response><nextToken>again</nextToken></Response>`))
	json := answered(t, http.StatusOK, []byte(`{"FormatVersion":"aws_v1","NextToken":"again","PriceList":[]}`))
	for name, r := range map[string]*rig{
		"instance_types": xml, "spot_prices": xml, "instances": xml, "capacity_reservations": xml, "instance_status": xml, "on_demand_prices": json,
	} {
		if err := r.task(name).poll(t.Context()); err == nil || !strings.Contains(err.Error(), "came before") {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// An EC2 that does not know a filter may answer with all that it has. What was not asked for is left out.
func TestAnAnswerWithMoreThanWasAskedFor(t *testing.T) {
	const types = `<Response><instanceTypeSet>
		<item><instanceType>m5.large</instanceType><supportedVirtualizationTypes><item>hvm</item></supportedVirtualizationTypes><processorInfo><supportedArchitectures><item>x86_64</item></supportedArchitectures></processorInfo></item>
		<item><instanceType>m9.large</instanceType></item>
		<item><instanceType>mac2.metal</instanceType><processorInfo><supportedArchitectures><item>arm64_mac</item></supportedArchitectures></processorInfo></item>
		<item><instanceType>t0.micro</instanceType><supportedVirtualizationTypes><item>paravirtual</item></supportedVirtualizationTypes></item>
	</instanceTypeSet></Response>`
	found, err := answered(t, http.StatusOK, []byte(types)).describeTypes(t.Context())
	if err != nil || len(found) != 2 || found[0].InstanceType != "m5.large" || found[1].InstanceType != "m9.large" {
		t.Errorf("types %v: %v", found, err)
	}
	const offerings = `<Response><instanceTypeOfferingSet>
		<item><instanceType>m5.large</instanceType><location>arn:1</location></item>
		<item><instanceType>c5.large</instanceType><location>arn:2</location></item>
	</instanceTypeOfferingSet></Response>`
	zones := map[string]map[string]bool{}
	err = answered(t, http.StatusOK, []byte(offerings)).describeOfferings(t.Context(), ec2types.LocationTypeOutpost, "arn:1", zones)
	if err != nil || len(zones) != 1 || !zones["m5.large"]["arn:1"] {
		t.Errorf("offerings %v: %v", zones, err)
	}
	const spots = `<Response><spotPriceHistorySet>
		<item><instanceType>m5.large</instanceType><availabilityZone>us-west-2a</availabilityZone><productDescription>Windows</productDescription><spotPrice>0.9</spotPrice></item>
		<item><instanceType>m5.large</instanceType><availabilityZone>us-west-2a</availabilityZone><productDescription>Linux/UNIX</productDescription><spotPrice>0.1</spotPrice></item>
		<item><instanceType>m5.large</instanceType><availabilityZone>us-west-2a</availabilityZone><productDescription>SUSE Linux</productDescription><spotPrice>0.2</spotPrice></item>
		<item><instanceType>m5.large</instanceType><availabilityZone>us-west-2b</availabilityZone><spotPrice>0.3</spotPrice></item>
	</spotPriceHistorySet></Response>`
	prices, err := answered(t, http.StatusOK, []byte(spots)).spotPrices(t.Context())
	if err != nil || len(prices) != 2 || prices[priceKey{"m5.large", spot, "us-west-2a"}] != 100_000 || prices[priceKey{"m5.large", spot, "us-west-2b"}] != 300_000 {
		t.Errorf("spot prices %v: %v", prices, err)
	}
	tag := func(key, value string) string {
		return "<item><key>" + key + "</key><value>" + value + "</value></item>"
	}
	instance := func(id, state, cluster string) string {
		return "<item><instanceId>" + id + "</instanceId><instanceState><name>" + state + "</name></instanceState><tagSet>" +
			tag(karpawsv1.TagNodePool, "default") + tag(karpawsv1.TagNodeClass, "default") + tag(karpawsv1.TagEKSClusterName, cluster) + "</tagSet></item>"
	}
	all := "<Response><reservationSet><item><instancesSet>" + instance("i-1", "running", "blue") + instance("i-2", "running", "green") +
		instance("i-3", "terminated", "blue") + "<item><instanceId>i-4</instanceId></item></instancesSet></item></reservationSet></Response>"
	instances, err := answered(t, http.StatusOK, []byte(all)).describeInstances(t.Context())
	if err != nil || len(instances) != 1 || instances["i-1"] == nil {
		t.Errorf("instances %v: %v", instances, err)
	}
}

// refusing is a transport to an account that fails at a filter that it does not know.
type refusing struct {
	http.RoundTripper
	filter string
}

func (a refusing) RoundTrip(r *http.Request) (*http.Response, error) {
	sent, err := io.ReadAll(r.Body)
	if err != nil {
		return nil, err
	}
	if strings.Contains(string(sent), a.filter) {
		return answers{http.StatusInternalServerError, []byte("<!doctype html>\n<html lang=en>")}.RoundTrip(r)
	}
	r.Body = io.NopCloser(bytes.NewReader(sent))
	return a.RoundTripper.RoundTrip(r)
}

// Only some EC2s know the filter for subnets on Outposts; what the others have is learnt all the same.
func TestOutpostsAreFoundWithoutAFilter(t *testing.T) {
	r := newRig(t, nil)
	r.sdk.HTTPClient = &http.Client{Transport: refusing{r.sim.Transport(), "outpost-arn"}}
	r.cfg.EC2, _ = Clients(r.sdk)
	subnet := r.sim.Defaults().Subnets["us-west-2a"]
	const rack = "arn:aws:outposts:us-west-2:111122223333:outpost/op-1"
	r.control("PUT", "subnets/"+subnet, map[string]any{"availableAddresses": -1, "outpost": simclient.Outpost{ARN: rack, InstanceTypes: []string{"m5.large"}}})
	r.poll("outposts")
	if known := r.outposts.Load(); len(known.of) != 1 || known.of[subnet] != rack || !known.types[rack]["m5.large"] {
		t.Errorf("Outposts %+v", known)
	}
}

// Whatever AWS answers, each poll ends.
func FuzzAnswers(f *testing.F) {
	for _, body := range []string{
		`<Response><nextToken>1</nextToken></Response>`,
		`<Response><instanceTypeSet><item><instanceType>m5.large</instanceType><memoryInfo/><networkInfo><maximumNetworkInterfaces>-1</maximumNetworkInterfaces></networkInfo></item></instanceTypeSet></Response>`,
		`<Response><instanceTypeOfferingSet><item><instanceType>m5.large</instanceType><location>us-west-2a</location></item></instanceTypeOfferingSet></Response>`,
		`<Response><spotPriceHistorySet><item><instanceType>m5.large</instanceType><availabilityZone>us-west-2a</availabilityZone><spotPrice>1e99</spotPrice></item></spotPriceHistorySet></Response>`,
		`<Response><reservationSet><item><instancesSet><item/></instancesSet></item></reservationSet></Response>`,
		`<Response><instanceStatusSet><item><eventsSet><item/></eventsSet></item></instanceStatusSet></Response>`,
		`<Response><capacityReservationSet><item><availableInstanceCount>-5</availableInstanceCount></item></capacityReservationSet></Response>`,
		`{"PriceList":["{\"product\":{\"attributes\":{\"instanceType\":\"m5.large\"}},\"terms\":{\"OnDemand\":{\"a\":{\"priceDimensions\":{\"b\":{\"pricePerUnit\":{\"USD\":\"-1\"}}}}}}}"]}`,
	} {
		f.Add(200, []byte(body))
	}
	f.Add(503, []byte(`<Response><Errors><Error><Code>RequestLimitExceeded</Code></Error></Errors></Response>`))
	f.Fuzz(func(t *testing.T, status int, body []byte) {
		r := answered(t, 100+(status&0x7fffffff)%500, body)
		for _, task := range r.tasks {
			_ = task.poll(t.Context()) // it ends
		}
	})
}
