package launch

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	awsec2 "github.com/aws/aws-sdk-go-v2/service/ec2"
	ec2types "github.com/aws/aws-sdk-go-v2/service/ec2/types"
	"pgregory.net/rapid"
)

// wire returns the bytes the SDK sends for a request.
func wire(in *awsec2.CreateFleetInput) (string, error) {
	var sent string
	capture := roundTripper(func(r *http.Request) (*http.Response, error) {
		b, err := io.ReadAll(r.Body)
		sent = string(b)
		return nil, errors.Join(errors.New("captured"), err)
	})
	c := awsec2.New(awsec2.Options{Region: "eu-west-1", Credentials: aws.AnonymousCredentials{}, HTTPClient: &http.Client{Transport: capture}, RetryMaxAttempts: 1})
	_, err := c.CreateFleet(context.Background(), in)
	if sent == "" {
		return "", err
	}
	return sent, nil
}

type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

func builtRequest(t testing.TB) *awsec2.CreateFleetInput {
	t.Helper()
	b := newBench(t.(*testing.T))
	built, err := b.Build(context.Background(), input(readyClass("AL2023"), claim(capacityTypes("spot", "on-demand")), m5large, m6glarge, m5xlarge))
	if err != nil {
		t.Fatal(err)
	}
	return requestOf(b, built, "token-1")
}

func TestDecodedRequestIsSentAsTheSameBytes(t *testing.T) {
	in := builtRequest(t)
	encoded, err := EncodeRequest(in)
	if err != nil {
		t.Fatal(err)
	}
	decoded, err := DecodeRequest(encoded)
	if err != nil {
		t.Fatal(err)
	}
	want, err := wire(in)
	if err != nil {
		t.Fatal(err)
	}
	got, err := wire(decoded)
	if err != nil || got != want {
		t.Errorf("%v\n%s\n%s", err, want, got)
	}
	if !strings.Contains(want, "ClientToken=token-1") || !strings.Contains(want, "LaunchTemplateId=lt-1") || !strings.Contains(want, "Version=1") {
		t.Errorf("sent %s", want)
	}
	if bytes.Contains(encoded, []byte("null")) {
		t.Errorf("nulls in the record: %s", encoded)
	}
	if len(encoded) > 8<<10 {
		t.Errorf("%d bytes for 3 types", len(encoded))
	}
}

// TestRequestRoundTrip: any request, also one with empty texts and numbers that are zero, survives.
func TestRequestRoundTrip(t *testing.T) {
	text := rapid.SampledFrom([]string{"", "a", "ü<&>\"", "null"})
	rapid.Check(t, func(t *rapid.T) {
		maybe := func(label string) *string {
			if rapid.Bool().Draw(t, label+" set") {
				return aws.String(text.Draw(t, label))
			}
			return nil
		}
		in := &awsec2.CreateFleetInput{
			ClientToken: aws.String("t" + text.Draw(t, "token")), Type: ec2types.FleetTypeInstant, Context: maybe("context"),
			TargetCapacitySpecification: &ec2types.TargetCapacitySpecificationRequest{TotalTargetCapacity: aws.Int32(rapid.Int32().Draw(t, "n"))},
		}
		for range rapid.IntRange(0, 3).Draw(t, "configs") {
			in.LaunchTemplateConfigs = append(in.LaunchTemplateConfigs, ec2types.FleetLaunchTemplateConfigRequest{Overrides: []ec2types.FleetLaunchTemplateOverridesRequest{{
				SubnetId: maybe("subnet"), InstanceType: ec2types.InstanceType(text.Draw(t, "type")),
				Priority: aws.Float64(rapid.Float64Range(0, 1e6).Draw(t, "priority")),
			}}})
			in.TagSpecifications = append(in.TagSpecifications, ec2types.TagSpecification{Tags: []ec2types.Tag{{Key: maybe("key"), Value: maybe("value")}}})
		}
		encoded, err := EncodeRequest(in)
		if err != nil {
			t.Fatal(err)
		}
		decoded, err := DecodeRequest(encoded)
		if err != nil {
			t.Fatal(err)
		}
		want, err := wire(in)
		if err != nil {
			return // the SDK refuses it
		}
		if got, err := wire(decoded); err != nil || got != want {
			t.Fatalf("%v\n%s\n%s", err, want, got)
		}
	})
}

func TestDecodeRequestRefusals(t *testing.T) {
	cases := map[string]string{
		"not JSON":      `{`,
		"unknown field": `{"ClientToken":"a","Type":"instant","Hurry":true}`,
		"no token":      `{"Type":"instant"}`,
		"not instant":   `{"ClientToken":"a","Type":"maintain"}`,
		"more after it": `{"ClientToken":"a","Type":"instant"} {}`,
		"another kind":  `[]`,
	}
	for name, text := range cases {
		t.Run(name, func(t *testing.T) {
			if in, err := DecodeRequest([]byte(text)); err == nil {
				t.Errorf("accepted as %+v", in)
			}
		})
	}
}

// FuzzDecodeRequest: what decodes encodes to something that decodes to the same again.
func FuzzDecodeRequest(f *testing.F) {
	f.Add([]byte(`{"ClientToken":"a","Type":"instant"}`))
	f.Add([]byte(`{"ClientToken":"a","Type":"instant","LaunchTemplateConfigs":[{"Overrides":[{"InstanceType":"m5.large","Priority":0.1}]},null],"ValidFrom":"2026-01-01T00:00:00Z"}`))
	f.Fuzz(func(t *testing.T, b []byte) {
		in, err := DecodeRequest(b)
		if err != nil {
			return
		}
		first, err := EncodeRequest(in)
		if err != nil {
			t.Fatal(err)
		}
		again, err := DecodeRequest(first)
		if err != nil {
			t.Fatalf("%s: %v", first, err)
		}
		if second, err := EncodeRequest(again); err != nil || string(first) != string(second) {
			t.Fatalf("%v\n%s\n%s", err, first, second)
		}
	})
}
