package ec2

import (
	"bytes"
	"context"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	ec2types "github.com/aws/aws-sdk-go-v2/service/ec2/types"

	awsv1 "millwright/api/karpenteraws/v1"
)

// deaf is a transport to an account that knows no filters: it answers with all that it has.
type deaf struct{ http.RoundTripper }

func (u deaf) RoundTrip(r *http.Request) (*http.Response, error) {
	sent, err := io.ReadAll(r.Body)
	if err != nil {
		return nil, err
	}
	form, err := url.ParseQuery(string(sent))
	if err != nil {
		return nil, err
	}
	for key := range form {
		if strings.HasPrefix(key, "Filter.") || strings.HasPrefix(key, "LaunchTemplateName.") || key == "PathPrefix" {
			delete(form, key)
		}
	}
	body := []byte(form.Encode())
	r.Body, r.ContentLength = io.NopCloser(bytes.NewReader(body)), int64(len(body))
	return u.RoundTripper.RoundTrip(r)
}

// malformed is a transport to an account that refuses short ids of capacity reservations, as EC2 does.
type malformed struct{ http.RoundTripper }

func (m malformed) RoundTrip(r *http.Request) (*http.Response, error) {
	sent, err := io.ReadAll(r.Body)
	if err != nil {
		return nil, err
	}
	if form, _ := url.ParseQuery(string(sent)); form.Get("CapacityReservationId.1") == "cr-typo" {
		const answer = `<Response><Errors><Error><Code>InvalidCapacityReservationId.Malformed</Code><Message>The ID 'cr-typo' is malformed</Message></Error></Errors><RequestID>r</RequestID></Response>`
		return &http.Response{StatusCode: http.StatusBadRequest, Header: http.Header{"Content-Type": {"text/xml"}}, Body: io.NopCloser(strings.NewReader(answer)), Request: r}, nil
	}
	r.Body = io.NopCloser(bytes.NewReader(sent))
	return m.RoundTripper.RoundTrip(r)
}

// A class with one would otherwise have none of its reservations, and never be ready, without a word.
func TestAMalformedReservationHidesNoOthers(t *testing.T) {
	a := newAccount(t)
	a.Client = clientAt(t, "http://aws.simulated", malformed{a.sim.Transport()}, time.Minute, nil)
	found, err := a.DescribeCapacityReservations(t.Context(), []awsv1.CapacityReservationSelectorTerm{{ID: "cr-typo"}, {ID: "cr-none"}, {Tags: map[string]string{"a": "b"}}})
	if err != nil || len(found) != 0 {
		t.Errorf("%v: %v", found, err)
	}
}

// What is found by its tags or path may be ended. So an answer that was not narrowed down to what was asked
// for, as from an EC2 that does not know a filter, must not give away what is somebody else's.
func TestAnAnswerWithMoreThanWasAskedFor(t *testing.T) {
	ctx, a := context.Background(), newAccount(t)
	ours, theirs := a.launch(t, "ours").Instances[0].ID, a.launch(t, "theirs").Instances[0].ID
	ended := a.launch(t, "ended").Instances[0].ID
	if err := a.TerminateInstances(ctx, []string{ended}); err != nil {
		t.Fatal(err)
	}
	a.now = a.now.Add(time.Hour)
	for name, owner := range map[string]string{"karpenter.k8s.aws/2": "us", "karpenter.k8s.aws/3": "them"} {
		if _, err := a.EnsureLaunchTemplate(ctx, LaunchTemplate{Name: name, Data: &ec2types.RequestLaunchTemplateData{ImageId: aws.String("ami-1")}, Tags: map[string]string{"owner": owner}}); err != nil {
			t.Fatal(err)
		}
	}
	for _, path := range []string{"/karpenter/us-west-2/blue/1/", "/karpenter/us-west-2/green/1/", "/"} {
		name := "profile" + strings.ReplaceAll(path, "/", "-")
		if err := a.EnsureInstanceProfile(ctx, InstanceProfile{Name: name, Path: path, Role: "extra-role"}); err != nil {
			t.Fatal(err)
		}
	}
	a.Client = clientAt(t, "http://aws.simulated", deaf{a.sim.Transport()}, time.Minute, nil)

	for asked, want := range map[string][]string{"c-ours": {ours}, "c-theirs": {theirs}, "c-ended": nil, "*": {ours, theirs}} {
		found, err := a.DescribeInstancesByTags(ctx, map[string]string{"karpenter.sh/nodeclaim": asked})
		var ids []string
		for _, i := range found {
			ids = append(ids, i.ID)
		}
		slices.Sort(want)
		if err != nil || !slices.Equal(ids, want) {
			t.Errorf("instances of %s: %v, want %v: %v", asked, ids, want, err)
		}
	}
	templates, err := a.DescribeLaunchTemplates(ctx, map[string]string{"owner": "us"})
	if err != nil || len(templates) != 1 || templates[0].Name != "karpenter.k8s.aws/2" {
		t.Errorf("launch templates %+v: %v", templates, err)
	}
	ref, err := a.EnsureLaunchTemplate(ctx, LaunchTemplate{Name: "karpenter.k8s.aws/2", Data: &ec2types.RequestLaunchTemplateData{}})
	if err != nil || ref.ID != templates[0].ID {
		t.Errorf("launch template by name is %+v, want %+v: %v", ref, templates[0], err)
	}
	profiles, err := a.InstanceProfiles(ctx, "/karpenter/us-west-2/blue/")
	if err != nil || len(profiles) != 1 || profiles[0].Name != "profile-karpenter-us-west-2-blue-1-" {
		t.Errorf("instance profiles %+v: %v", profiles, err)
	}
	all, err := a.DescribeImages(ctx, ImageQuery{Name: "*"})
	if err != nil || len(all) < 2 {
		t.Fatalf("images %v: %v", all, err)
	}
	if images, err := a.DescribeImages(ctx, ImageQuery{IDs: []string{all[1].ID}}); err != nil || len(images) != 1 || images[0].ID != all[1].ID {
		t.Errorf("image by id: %d are found, %v", len(images), err)
	}
}
