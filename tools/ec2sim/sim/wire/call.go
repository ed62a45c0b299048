// Package wire is how AWS speaks: the query and JSON protocols, errors, filters, pages, ids and timestamps.
// It knows no resource.
package wire

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"net/url"
	"strings"
)

// maxBody bounds a request: far above EC2's own limit.
const maxBody = 8 << 20

// Call is one AWS request on its way through the simulator.
type Call struct {
	ID      string
	Service string // ec2, iam, sts, ssm, pricing, sqs, eks, arc-zonal-shift
	Action  string
	Params  *Params    // query protocol
	Form    url.Values // query protocol
	body    []byte     // JSON protocols
	Path    string     // REST protocols
	Ctx     context.Context
	// AccessKey is the id of the key that signed it; "" if none did.
	AccessKey string
}

// Operation carries out a call under the account's lock.
type Operation func(c *Call) (any, error)

// ParseCall finds the service from target header, path or credential scope, and reads the body.
func ParseCall(r *http.Request) (*Call, error) {
	c := &Call{ID: NewRequestID(), Path: r.URL.Path, Ctx: r.Context(), Service: "ec2"}
	body, err := io.ReadAll(io.LimitReader(r.Body, maxBody+1))
	if err != nil {
		return c, Refuse("RequestExpired", "The request could not be read: %s", err)
	}
	if len(body) > maxBody {
		return c, Refuse("RequestEntityTooLarge", "The request is larger than %d bytes.", maxBody)
	}
	c.body = body
	var scope string
	c.AccessKey, scope = credential(r.Header.Get("Authorization"))
	if target := r.Header.Get("X-Amz-Target"); target != "" {
		return c, c.parseTarget(target)
	}
	if strings.HasPrefix(r.URL.Path, "/clusters/") || scope == "eks" {
		c.Service, c.Action = "eks", "DescribeCluster"
		return c, nil
	}
	if strings.HasPrefix(r.URL.Path, "/managedresources/") {
		c.Service, c.Action = "arc-zonal-shift", "GetManagedResource"
		return c, nil
	}
	return c, c.parseQuery(r, scope)
}

var targets = map[string]string{"AmazonSSM": "ssm", "AWSPriceListService": "pricing", "AmazonSQS": "sqs"}

func (c *Call) parseTarget(target string) error {
	prefix, action, _ := strings.Cut(target, ".")
	service, ok := targets[prefix]
	c.Service, c.Action = service, action
	if !ok {
		c.Service = "ssm"
		return Refuse("UnknownOperationException", "The operation %s is not known.", target)
	}
	return nil
}

var queryVersions = map[string]string{"2016-11-15": "ec2", "2010-05-08": "iam", "2011-06-15": "sts"}

func (c *Call) parseQuery(r *http.Request, scope string) error {
	form, err := url.ParseQuery(string(c.body))
	if err != nil {
		return Refuse("MalformedQueryString", "The query string contains a syntax error: %s", err)
	}
	for key, values := range r.URL.Query() {
		form[key] = values
	}
	c.Form, c.Params, c.Action = form, parseParams(form), form.Get("Action")
	if scope == "" {
		scope = queryVersions[form.Get("Version")]
	}
	if scope == "iam" || scope == "sts" {
		c.Service = scope
	}
	if c.Action == "" {
		return Refuse("MissingAction", "The request is missing an action or a required parameter.")
	}
	return nil
}

// credential reads key and service from "Credential=AKID/20260101/us-west-2/ec2/aws4_request".
func credential(authorization string) (key, service string) {
	_, rest, ok := strings.Cut(authorization, "Credential=")
	if !ok {
		return "", ""
	}
	scope, _, _ := strings.Cut(rest, ",")
	parts := strings.Split(scope, "/")
	if len(parts) < 5 {
		return "", ""
	}
	return parts[0], parts[len(parts)-2]
}

// ReadJSON decodes the body of a JSON-protocol call.
func ReadJSON(c *Call, into any) error {
	if err := json.Unmarshal(c.body, into); err != nil {
		return Refuse("SerializationException", "The request is not valid JSON: %s", err)
	}
	return nil
}
