package launch

import (
	"context"
	"fmt"
	"net/http"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	awsec2 "github.com/aws/aws-sdk-go-v2/service/ec2"
	ec2types "github.com/aws/aws-sdk-go-v2/service/ec2/types"

	awsv1 "millwright/api/karpenteraws/v1"
	"millwright/services/internal/ec2"
	"millwright/services/lifecycle/nodeclass"
	"millwright/tools/ec2sim/sim"
)

// effectsAtOnce is how many launches, terminations or tags lifecycle has under way.
const effectsAtOnce = 64

// burst is an account on the clock of a synctest bubble that enforces the limits EC2 publishes. Lifecycle and
// watcher call it as two processes.
type burst struct {
	*account
	watcher *awsec2.Client
}

func newBurst(t *testing.T) *burst {
	t.Helper()
	a := &account{sim: sim.New(sim.Config{
		ClusterName: "blue", Region: "eu-west-1", KubernetesVersion: "1.32", Now: time.Now, Settings: sim.DefaultSettings(), ClusterCA: []byte("ca"),
	})}
	sdk := aws.Config{
		Region: "eu-west-1", BaseEndpoint: aws.String("http://aws.simulated"), HTTPClient: &http.Client{Transport: a.sim.Transport()},
		Credentials: credentials.NewStaticCredentialsProvider("id", "secret", ""),
	}
	var err error
	if a.cloud, err = ec2.New(t.Context(), ec2.Config{Cluster: "blue", AWS: &sdk, Budgets: ec2.NewBudgets(ec2.RoleActing, nil)}); err != nil {
		t.Fatal(err)
	}
	cluster := NewClusterSource(ClusterConfig{
		Given: Cluster{Name: "blue"}, Describe: a.cloud.DescribeCluster, Now: time.Now,
		DNS:     func(context.Context) (string, error) { return "10.100.0.10", nil },
		Version: func(context.Context) (string, error) { return "1.32", nil },
	})
	a.builder = New(Config{Cloud: a.cloud, Cluster: cluster.Get, Region: "eu-west-1", Now: time.Now})
	a.reconciler = nodeclass.New(nodeclass.Config{
		Cloud: a.cloud, Cluster: "blue", Region: "eu-west-1", Version: cluster.Version, CIDR: cluster.CIDR, DeleteTemplates: a.builder.DeleteTemplates,
		SubnetsSeen: a.builder.SubnetsSeen, Now: time.Now,
	})
	b := &burst{account: a, watcher: awsec2.NewFromConfig(ec2.NewBudgets(ec2.RoleWatching, nil).Bind(sdk))}
	return b
}

// watch reads in bursts, as the watcher does page by page, until ctx ends.
func (b *burst) watch(ctx context.Context, t *testing.T) {
	for ctx.Err() == nil {
		for range 20 {
			in := &awsec2.DescribeSubnetsInput{Filters: []ec2types.Filter{{Name: aws.String("vpc-id"), Values: []string{"none"}}}}
			if _, err := b.watcher.DescribeSubnets(ctx, in); err != nil && ctx.Err() == nil {
				t.Errorf("poll: %v", err)
				return
			}
		}
		select {
		case <-ctx.Done():
		case <-time.After(10 * time.Second):
		}
	}
}

// each does n things, effectsAtOnce at a time, and returns how long all of them took.
func each(t *testing.T, n int, do func(i int) error) time.Duration {
	start := time.Now()
	room := make(chan struct{}, effectsAtOnce)
	var all sync.WaitGroup
	for i := range n {
		room <- struct{}{}
		all.Go(func() {
			defer func() { <-room }()
			if err := do(i); err != nil {
				t.Errorf("%d: %v", i, err)
			}
		})
	}
	all.Wait()
	return time.Since(start)
}

// A thousand nodes at once, in an account that enforces the limits EC2 publishes, asked for one by one and as
// lifecycle joins equal ones: no call is refused, neither while they come nor while they go.
func TestAThousandLaunchesKeepWithinTheLimitsOfEC2(t *testing.T) {
	for _, joined := range []int{1, 40} {
		synctest.Test(t, func(t *testing.T) { keepWithinLimits(t, 1000, joined) })
	}
}

func keepWithinLimits(t *testing.T, nodes, joined int) {
	b := newBurst(t)
	b.publish(t)
	nc := b.class(t, "al2023@latest")
	ctx, stop := context.WithCancel(t.Context())
	var watching sync.WaitGroup
	watching.Go(func() { b.watch(ctx, t) })
	ids := make([]string, nodes)
	launched := each(t, nodes/joined, func(i int) error {
		call, done := context.WithTimeout(ctx, time.Minute)
		defer done()
		return b.launch(call, nc, fmt.Sprintf("token-%d", i), ids[i*joined:(i+1)*joined])
	})
	tagged := each(t, nodes, func(i int) error { return b.cloud.CreateTags(ctx, ids[i], map[string]string{"Name": fmt.Sprint(i)}) })
	ended := each(t, nodes, func(i int) error {
		if err := b.cloud.TerminateInstances(ctx, ids[i:i+1]); err != nil {
			return err
		}
		for {
			found, err := b.cloud.DescribeInstances(ctx, ids[i:i+1])
			if err != nil || len(found) == 0 || found[0].Gone() {
				return err
			}
			time.Sleep(2 * time.Second)
		}
	})
	stop()
	watching.Wait()
	t.Logf("%d nodes, %d to a call: launched in %s, tagged in %s, terminated in %s", nodes, joined, launched.Round(time.Second), tagged.Round(time.Second), ended.Round(time.Second))
	if live := len(b.sim.Instances()); live < nodes {
		t.Errorf("%d instances were ever there", live)
	}
	for name, outcomes := range b.sim.Calls() {
		if n := outcomes["RequestLimitExceeded"]; n > 0 {
			t.Errorf("%d calls of %s were refused", n, name)
		}
	}
}

// launch asks for as many instances as there are ids to fill in, with one request.
func (b *burst) launch(ctx context.Context, nc *awsv1.EC2NodeClass, token string, ids []string) error {
	built, err := b.builder.Build(ctx, input(nc, claim(capacityTypes("spot", "on-demand")), m5large, m6glarge, m5xlarge))
	if err != nil {
		return err
	}
	result, err := b.cloud.CreateFleet(ctx, b.builder.Request(built, Order{Claims: make([]string, len(ids)), Token: token, LaunchTag: token}))
	if err != nil {
		return err
	}
	if len(result.Instances) != len(ids) {
		return result.Shortfall()
	}
	var subnets []string
	for i, instance := range result.Instances {
		ids[i], subnets = instance.ID, append(subnets, instance.SubnetID)
	}
	b.builder.Settle(token, subnets...)
	return nil
}

// publish has the account enforce the limits.
func (b *burst) publish(t *testing.T) {
	t.Helper()
	req, err := http.NewRequest(http.MethodPost, "http://aws.simulated/_control/limits", nil)
	if err != nil {
		t.Fatal(err)
	}
	resp, err := b.sim.Transport().RoundTrip(req)
	if err != nil || resp.StatusCode != http.StatusOK {
		t.Fatalf("set the limits: %v %v", resp, err)
	}
}
