package ec2

import (
	"bytes"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	karpawsv1 "millwright/api/karpenteraws/v1"
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
