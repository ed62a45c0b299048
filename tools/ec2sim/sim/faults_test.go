package sim_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	ec2types "github.com/aws/aws-sdk-go-v2/service/ec2/types"
	"github.com/aws/aws-sdk-go-v2/service/sqs"

	"millwright/tools/ec2sim/sim"
	"millwright/tools/ec2sim/simclient"
)

// retrying returns an EC2 client with the SDK's own retries.
func (w *world) retrying() *ec2.Client {
	cfg := w.aws.Copy()
	cfg.RetryMaxAttempts = 5
	return ec2.NewFromConfig(cfg, func(o *ec2.Options) { o.RetryMaxAttempts = 5 })
}

func (w *world) fault(f simclient.Fault) {
	w.t.Helper()
	_, err := w.control.AddFault(ctxb(), f)
	w.must(err)
}

func TestInjectedErrors(t *testing.T) {
	w := newWorld(t)
	w.fault(simclient.Fault{Action: "DescribeSubnets", Code: "UnauthorizedOperation", Count: 2})
	for range 2 {
		_, err := w.ec2.DescribeSubnets(ctxb(), &ec2.DescribeSubnetsInput{})
		wantCode(t, err, "UnauthorizedOperation")
	}
	_, err := w.ec2.DescribeSubnets(ctxb(), &ec2.DescribeSubnetsInput{})
	w.must(err)
	w.fault(simclient.Fault{Action: "*", Service: "ec2", Code: "InternalError"})
	_, err = w.ec2.DescribeImages(ctxb(), &ec2.DescribeImagesInput{})
	wantCode(t, err, "InternalError")
	w.image("arm64") // another service
	w.must(w.control.ClearFault(ctxb(), ""))
	_, err = w.ec2.DescribeImages(ctxb(), &ec2.DescribeImagesInput{})
	w.must(err)
}

func TestFaultRatesAreShares(t *testing.T) {
	w := newWorld(t)
	w.fault(simclient.Fault{Action: "DescribeAvailabilityZones", Code: "Unavailable", Rate: 0.3})
	hit := 0
	for range 200 {
		if _, err := w.ec2.DescribeAvailabilityZones(ctxb(), &ec2.DescribeAvailabilityZonesInput{}); err != nil {
			hit++
		}
	}
	if hit < 35 || hit > 90 {
		t.Errorf("%d of 200 calls failed at a rate of 0.3", hit)
	}
}

func TestThrottledCallsSucceedByTheSDKsRetries(t *testing.T) {
	w := newWorld(t)
	w.must(w.control.SetLimits(ctxb(), simclient.Limit{Action: "DescribeSubnets", PerSecond: 1, Burst: 1}))
	_, err := w.ec2.DescribeSubnets(ctxb(), &ec2.DescribeSubnetsInput{})
	w.must(err)
	_, err = w.ec2.DescribeSubnets(ctxb(), &ec2.DescribeSubnetsInput{})
	wantCode(t, err, "RequestLimitExceeded")
	w.clock.Advance(time.Second)
	_, err = w.ec2.DescribeSubnets(ctxb(), &ec2.DescribeSubnetsInput{})
	w.must(err)
	w.must(w.control.SetLimits(ctxb()))

	w.fault(simclient.Fault{Action: "DescribeSubnets", Code: "RequestLimitExceeded", Count: 2})
	_, err = w.retrying().DescribeSubnets(ctxb(), &ec2.DescribeSubnetsInput{})
	w.must(err)
	calls, err := w.control.Calls(ctxb())
	w.must(err)
	if got := fmt.Sprint(calls["DescribeSubnets"]); got != "map[RequestLimitExceeded:3 ok:3]" {
		t.Errorf("calls %s", got)
	}
}

func TestAFleetThatLaunchesWithoutAnAnswer(t *testing.T) {
	cases := map[string]simclient.Fault{
		"the connection drops":        {Action: "CreateFleet", After: true, Drop: true, Count: 1},
		"the answer is an error":      {Action: "CreateFleet", After: true, Code: "InternalError", Count: 1},
		"the answer comes much later": {Action: "CreateFleet", After: true, Delay: simclient.Duration(time.Minute), Drop: true, Count: 1},
	}
	for sentence, f := range cases {
		t.Run(sentence, func(t *testing.T) {
			w := newWorld(t)
			w.template("web")
			w.fault(f)
			in := w.fleetInput("web", a, "m5.large")
			if _, err := w.ec2.CreateFleet(ctxb(), in); err == nil {
				t.Fatal("answered")
			}
			ledger := w.server.Ledger(0)
			if len(ledger) != 1 || !ledger[0].Unanswered || ledger[0].Outcome != "launched" {
				t.Fatalf("ledger %+v", ledger)
			}
			if id := w.launch(in); id != ledger[0].Instances[0] {
				t.Errorf("sent again: %s, want %s", id, ledger[0].Instances[0])
			}
			if n := len(w.server.Instances()); n != 1 {
				t.Errorf("%d instances", n)
			}
		})
	}
	t.Run("the SDK's retry gets the first answer", func(t *testing.T) {
		w := newWorld(t)
		w.template("web")
		w.fault(simclient.Fault{Action: "CreateFleet", After: true, Drop: true, Count: 1})
		out, err := w.retrying().CreateFleet(ctxb(), w.fleetInput("web", a, "m5.large"))
		w.must(err)
		if len(out.Instances) != 1 || len(w.server.Instances()) != 1 {
			t.Errorf("answer %+v, %d instances", out.Instances, len(w.server.Instances()))
		}
	})
	t.Run("a call dropped before it takes effect launches nothing", func(t *testing.T) {
		w := newWorld(t)
		w.template("web")
		w.fault(simclient.Fault{Action: "CreateFleet", Drop: true, Count: 1})
		if _, err := w.ec2.CreateFleet(ctxb(), w.fleetInput("web", a, "m5.large")); err == nil {
			t.Fatal("answered")
		}
		if n := len(w.server.Instances()); n != 0 {
			t.Errorf("%d instances", n)
		}
	})
}

func TestDelaysPassOnTheClock(t *testing.T) {
	w := newWorld(t)
	before := w.clock.Now()
	w.fault(simclient.Fault{Action: "DescribeSubnets", Delay: simclient.Duration(3 * time.Second)})
	_, err := w.ec2.DescribeSubnets(ctxb(), &ec2.DescribeSubnetsInput{})
	w.must(err)
	if passed := w.clock.Now().Sub(before); passed != 3*time.Second {
		t.Errorf("%s passed", passed)
	}
}

func TestDescribeCallsLag(t *testing.T) {
	w := newWorld(t)
	w.template("web")
	w.must(w.control.SetSettings(ctxb(), simclient.Settings{Consistency: simclient.Duration(5 * time.Second), Retention: simclient.Duration(time.Hour)}))
	w.clock.Advance(5 * time.Second)
	id := w.launch(w.fleetInput("web", a, "m5.large"))
	describe := func() error {
		_, err := w.ec2.DescribeInstances(ctxb(), &ec2.DescribeInstancesInput{InstanceIds: []string{id}})
		return err
	}
	wantCode(t, describe(), "InvalidInstanceID.NotFound")
	list, err := w.ec2.DescribeInstances(ctxb(), &ec2.DescribeInstancesInput{})
	w.must(err)
	if len(list.Reservations) != 0 {
		t.Error("listed at once")
	}
	w.clock.Advance(5 * time.Second)
	w.must(describe())

	tag := []ec2types.Tag{{Key: aws.String("Name"), Value: aws.String("n")}}
	_, err = w.ec2.CreateTags(ctxb(), &ec2.CreateTagsInput{Resources: []string{id}, Tags: tag})
	w.must(err)
	named := func() int {
		out, err := w.ec2.DescribeInstances(ctxb(), &ec2.DescribeInstancesInput{Filters: []ec2types.Filter{filterBy("tag:Name", "n")}})
		w.must(err)
		return len(out.Reservations)
	}
	if named() != 0 {
		t.Error("the tag is seen at once")
	}
	_, err = w.ec2.TerminateInstances(ctxb(), &ec2.TerminateInstancesInput{InstanceIds: []string{id}})
	w.must(err)
	if got := w.state(id); got != "running" {
		t.Errorf("seen as %s at once after termination", got)
	}
	w.clock.Advance(5 * time.Second)
	if named() != 1 || w.state(id) != "terminated" {
		t.Errorf("after the delay: %d named, %s", named(), w.state(id))
	}
}

func TestSpotInterruption(t *testing.T) {
	w := newWorld(t)
	w.template("web")
	in := w.fleetInput("web", a, "m5.large")
	in.TargetCapacitySpecification.DefaultTargetCapacityType = "spot"
	id := w.launch(in)
	w.must(w.control.Interrupt(ctxb(), id, simclient.Interruption{}))
	bodies := w.messages()
	if !strings.Contains(bodies, `"detail-type":"EC2 Spot Instance Interruption Warning"`) || !strings.Contains(bodies, id) {
		t.Errorf("messages %s", bodies)
	}
	w.clock.Advance(2*time.Minute - time.Second)
	if got := w.state(id); got != "running" {
		t.Errorf("%s before the notice is over", got)
	}
	w.clock.Advance(time.Second)
	if got := w.state(id); got != "terminated" {
		t.Errorf("%s after the notice", got)
	}
	if bodies := w.messages(); !strings.Contains(bodies, `"state":"terminated"`) {
		t.Errorf("no state change announced: %s", bodies)
	}
	onDemand := w.fleetInput("web", a, "m5.large")
	onDemand.ClientToken = aws.String("other")
	if err := w.control.Interrupt(ctxb(), w.launch(onDemand), simclient.Interruption{}); err == nil {
		t.Error("an on-demand instance was interrupted")
	}
}

// messages receives everything on the queue, as one text.
func (w *world) messages() string {
	client := sqs.NewFromConfig(w.aws)
	out, err := client.ReceiveMessage(ctxb(), &sqs.ReceiveMessageInput{MaxNumberOfMessages: 10,
		QueueUrl: aws.String("https://sqs.us-west-2.amazonaws.com/111122223333/millwright")})
	w.must(err)
	var b strings.Builder
	for _, m := range out.Messages {
		b.WriteString(aws.ToString(m.Body))
	}
	return b.String()
}

func TestHardwareFailureShowsInTheStatus(t *testing.T) {
	w := newWorld(t)
	w.template("web")
	id := w.launch(w.fleetInput("web", a, "m5.large"))
	impaired := func() int {
		out, err := w.ec2.DescribeInstanceStatus(ctxb(), &ec2.DescribeInstanceStatusInput{Filters: []ec2types.Filter{filterBy("instance-status.status", "impaired")}})
		w.must(err)
		return len(out.InstanceStatuses)
	}
	if impaired() != 0 {
		t.Error("impaired from the start")
	}
	w.must(w.control.Fail(ctxb(), id))
	if impaired() != 1 {
		t.Error("not impaired after the failure")
	}
	w.must(w.control.Recover(ctxb(), id))
	if impaired() != 0 {
		t.Error("still impaired")
	}
}

func TestControlsRefuseNonsense(t *testing.T) {
	w := newWorld(t)
	cases := map[string]error{
		"capacity of a type that does not exist": w.control.SetCapacity(ctxb(), simclient.Capacity{InstanceType: "m99.large"}),
		"capacity of a kind that does not exist": w.control.SetCapacity(ctxb(), simclient.Capacity{CapacityType: "cheap"}),
		"a price of a type that does not exist":  w.control.SetPrices(ctxb(), simclient.Price{InstanceType: "m99.large", CapacityType: "spot"}),
		"interrupting nobody":                    w.control.Interrupt(ctxb(), "i-0", simclient.Interruption{}),
		"a subnet that does not exist":           w.control.SetAvailableAddresses(ctxb(), "subnet-1", 1),
		"images without a date":                  w.control.PublishImages(ctxb(), "soon"),
	}
	_, cases["a fault without an action"] = w.control.AddFault(ctxb(), simclient.Fault{})
	_, cases["a fault with a rate of two"] = w.control.AddFault(ctxb(), simclient.Fault{Action: "*", Rate: 2})
	for sentence, err := range cases {
		if err == nil {
			t.Error("accepted: " + sentence)
		}
	}
}

func TestTheAccountSurvivesARestart(t *testing.T) {
	dir := t.TempDir()
	c := &clock{now: time.Date(2026, 4, 1, 12, 0, 0, 0, time.UTC)}
	open := func() *world {
		server := sim.New(sim.Config{Now: c.Now, Sleep: c.Sleep})
		if err := server.Persist(dir); err != nil {
			t.Fatal(err)
		}
		return serve(t, server, c)
	}
	first := open()
	first.template("web")
	createProfile(first, "mine")
	in := first.fleetInput("web", a, "m5.large", "c5.large")
	id := first.launch(in)
	subnet := first.server.Defaults().Subnets["us-west-2a"]
	_, err := first.ec2.CreateTags(ctxb(), &ec2.CreateTagsInput{Resources: []string{id}, Tags: []ec2types.Tag{{Key: aws.String("Name"), Value: aws.String("n")}}})
	first.must(err)
	first.must(first.control.SetCapacity(ctxb(), simclient.Capacity{InstanceType: "c5.large", Limit: 1}))
	first.must(first.control.SetPrices(ctxb(), simclient.Price{InstanceType: "m5.large", CapacityType: "on-demand", USDPerHour: 9}))
	first.must(first.control.SetAvailableAddresses(ctxb(), subnet, 7))
	first.must(first.control.PublishImages(ctxb(), "20260501"))
	first.must(first.control.SetLimits(ctxb(), simclient.Limit{Action: "DescribeVpcs", PerSecond: 1, Burst: 1}))
	first.fault(simclient.Fault{Action: "DescribeZones", Code: "X"})
	image := first.image("x86_64")
	first.must(first.server.Close())

	second := open()
	got := second.server.Instances()
	if len(got) != 1 || got[0].ID != id || got[0].Tags["Name"] != "n" || got[0].State != "running" {
		t.Fatalf("instances %+v", got)
	}
	if again := second.launch(in); again != id {
		t.Errorf("the token answers with %s, want %s", again, id)
	}
	if second.image("x86_64") != image {
		t.Error("the published images are lost")
	}
	faults, err := second.control.Faults(ctxb())
	second.must(err)
	if len(faults) != 1 || len(second.server.Ledger(0)) != 2 {
		t.Errorf("%d faults, ledger %+v", len(faults), second.server.Ledger(0))
	}
	out, err := second.ec2.DescribeSubnets(ctxb(), &ec2.DescribeSubnetsInput{SubnetIds: []string{subnet}})
	second.must(err)
	if n := aws.ToInt32(out.Subnets[0].AvailableIpAddressCount); n != 7 {
		t.Errorf("%d addresses, want 7", n)
	}
	more := second.fleetInput("web", a, "m5.large", "c5.large")
	more.ClientToken = aws.String("more")
	answer, err := second.ec2.CreateFleet(ctxb(), more)
	second.must(err)
	if len(answer.Instances) != 1 || answer.Instances[0].InstanceType != "m5.large" {
		t.Errorf("the capacity rule is lost: %+v", answer.Instances)
	}
}
