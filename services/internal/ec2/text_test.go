package ec2

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"
)

// What conditions say of a failure must not change with every attempt, as AWS's answers do: each has the id
// of its request, and a refusal is encoded anew.
func TestTextOfAnError(t *testing.T) {
	html := "<!doctype html>\n<html lang=en><title>500 Internal Server Error</title>"
	cases := map[string]struct {
		status       int
		body         string
		text, reason string
	}{
		"an error of AWS": {http.StatusBadRequest, `<Response><Errors><Error><Code>InvalidAMIID.NotFound</Code><Message>no ami-1</Message></Error></Errors><RequestID>%[1]d</RequestID></Response>`,
			"call ec2:DescribeSubnets: InvalidAMIID.NotFound: no ami-1", "The AMI does not exist: InvalidAMIID.NotFound: no ami-1"},
		"a refusal": {http.StatusForbidden, `<Response><Errors><Error><Code>UnauthorizedOperation</Code><Message>You are not allowed. Encoded authorization failure message: 4GIOHlTk-IaW%[1]d_Q</Message></Error></Errors><RequestID>%[1]d</RequestID></Response>`,
			"call ec2:DescribeSubnets: UnauthorizedOperation: You are not allowed.",
			"Denied: no identity-based policy allows the call: UnauthorizedOperation: You are not allowed."},
		"a region that is not enabled": {http.StatusForbidden, `<Response><Errors><Error><Code>OptInRequired</Code><Message>You are not subscribed to this service.</Message></Error></Errors><RequestID>%[1]d</RequestID></Response>`,
			"call ec2:DescribeSubnets: OptInRequired: You are not subscribed to this service. (" + regionDisabled + ")",
			"Denied: " + regionDisabled + ": OptInRequired: You are not subscribed to this service."},
		"credentials of other regions": {http.StatusUnauthorized, `<Response><Errors><Error><Code>AuthFailure</Code><Message>AWS was not able to validate the provided access credentials</Message></Error></Errors><RequestID>%[1]d</RequestID></Response>`,
			"call ec2:DescribeSubnets: AuthFailure: AWS was not able to validate the provided access credentials (" + regionDisabled + ")",
			"Denied: AWS was not able to validate the credentials; " + regionDisabled + ": AuthFailure: AWS was not able to validate the provided access credentials"},
		"an image of others": {http.StatusForbidden, `<Response><Errors><Error><Code>AuthFailure</Code><Message>Not authorized for images: [ami-1]</Message></Error></Errors><RequestID>%[1]d</RequestID></Response>`,
			"call ec2:DescribeSubnets: AuthFailure: Not authorized for images: [ami-1]",
			"Not authorized to use the selected AMI: AuthFailure: Not authorized for images: [ami-1]"},
		"a page for people": {http.StatusInternalServerError, html,
			"call ec2:DescribeSubnets: HTTP status 500 without an error of AWS", "Instance launch failed: call ec2:DescribeSubnets: HTTP status 500 without an error of AWS"},
		"a proxy": {http.StatusBadGateway, "", "call ec2:DescribeSubnets: HTTP status 502 without an error of AWS",
			"Instance launch failed: call ec2:DescribeSubnets: HTTP status 502 without an error of AWS"},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			var request atomic.Int64
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
				w.Header().Set("X-Amzn-Requestid", fmt.Sprint(request.Add(1)))
				w.WriteHeader(c.status)
				fmt.Fprint(w, strings.ReplaceAll(c.body, "%[1]d", fmt.Sprint(request.Load())))
			}))
			defer server.Close()
			client := clientAt(t, server.URL, nil, time.Minute, nil)
			for range 2 {
				_, err := client.DescribeSubnets(t.Context(), subnetTerms("blue"))
				if got, want := Text(fmt.Errorf("resolve subnets: %w", err)), "resolve subnets: "+c.text; got != want {
					t.Errorf("text %q, want %q", got, want)
				}
				_, err = client.ec2.DescribeSubnets(t.Context(), nil) // as those call it who have no Client
				if got, want := Text(fmt.Errorf("poll: %w", err)), "poll: "+c.text; got != want {
					t.Errorf("text %q, want %q", got, want)
				}
				if got := FailureOf(err).Message; got != c.reason {
					t.Errorf("message %q, want %q", got, c.reason)
				}
			}
		})
	}
}
