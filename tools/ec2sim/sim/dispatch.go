package sim

import (
	"context"
	"io"
	"net/http"
	"net/url"
	"strings"
	"time"

	"millwright/tools/ec2sim/simclient"
)

// maxBody bounds a request: far above EC2's own limit.
const maxBody = 8 << 20

// call is one AWS request on its way through the simulator.
type call struct {
	id      string
	service string // ec2, iam, sts, ssm, pricing, sqs, eks
	action  string
	params  *params    // query protocol
	form    url.Values // query protocol
	body    []byte     // JSON protocols
	path    string     // REST protocols
	ctx     context.Context
}

// operation carries out a call under the server's lock.
type operation func(s *Server, c *call) (any, error)

func (s *Server) serveAWS(w http.ResponseWriter, r *http.Request) {
	c, err := parseCall(r)
	if err != nil {
		s.answer(w, c, nil, err)
		return
	}
	before, after := s.judge(c)
	if !s.inflict(w, r, c, before) {
		return
	}
	result, err := s.perform(c)
	if after != nil {
		s.markUnanswered(c.id, after)
		if !s.inflict(w, r, c, after) {
			return
		}
	}
	s.answer(w, c, result, err)
}

// inflict carries a fault out; false means that the request has been dealt with.
func (s *Server) inflict(w http.ResponseWriter, r *http.Request, c *call, f *simclient.Fault) bool {
	if f == nil {
		return true
	}
	if f.Delay > 0 {
		if err := s.cfg.Sleep(r.Context(), time.Duration(f.Delay)); err != nil {
			panic(http.ErrAbortHandler)
		}
	}
	if f.Drop {
		s.count(c, "dropped")
		panic(http.ErrAbortHandler)
	}
	if f.Code != "" {
		s.answer(w, c, nil, faultError(f))
		return false
	}
	return true
}

// perform finds the operation and runs it.
func (s *Server) perform(c *call) (any, error) {
	if c.service == "sqs" && c.action == "ReceiveMessage" {
		return s.receiveMessage(c) // waits, so it takes the lock by itself
	}
	op, ok := operations[c.service][c.action]
	if !ok {
		return nil, refuse("InvalidAction", "The action %s is not valid for this web service.", c.action)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return op(s, c)
}

var operations map[string]map[string]operation

func init() {
	operations = map[string]map[string]operation{
		"ec2":     ec2Operations,
		"iam":     iamOperations,
		"sts":     {"GetCallerIdentity": getCallerIdentity},
		"ssm":     {"GetParameter": getParameter},
		"pricing": {"GetProducts": getProducts},
		"sqs":     sqsOperations,
		"eks":     {"DescribeCluster": describeCluster},
	}
}

// parseCall tells the service by target header, path or credential scope, and reads the body.
func parseCall(r *http.Request) (*call, error) {
	c := &call{id: newRequestID(), path: r.URL.Path, ctx: r.Context(), service: "ec2"}
	body, err := io.ReadAll(io.LimitReader(r.Body, maxBody+1))
	if err != nil {
		return c, refuse("RequestExpired", "The request could not be read: %s", err)
	}
	if len(body) > maxBody {
		return c, refuse("RequestEntityTooLarge", "The request is larger than %d bytes.", maxBody)
	}
	c.body = body
	scope := credentialService(r.Header.Get("Authorization"))
	if target := r.Header.Get("X-Amz-Target"); target != "" {
		return c, c.parseTarget(target)
	}
	if strings.HasPrefix(r.URL.Path, "/clusters/") || scope == "eks" {
		c.service, c.action = "eks", "DescribeCluster"
		return c, nil
	}
	return c, c.parseQuery(r, scope)
}

var targets = map[string]string{"AmazonSSM": "ssm", "AWSPriceListService": "pricing", "AmazonSQS": "sqs"}

func (c *call) parseTarget(target string) error {
	prefix, action, _ := strings.Cut(target, ".")
	service, ok := targets[prefix]
	c.service, c.action = service, action
	if !ok {
		c.service = "ssm"
		return refuse("UnknownOperationException", "The operation %s is not known.", target)
	}
	return nil
}

var queryVersions = map[string]string{"2016-11-15": "ec2", "2010-05-08": "iam", "2011-06-15": "sts"}

func (c *call) parseQuery(r *http.Request, scope string) error {
	form, err := url.ParseQuery(string(c.body))
	if err != nil {
		return refuse("MalformedQueryString", "The query string contains a syntax error: %s", err)
	}
	for key, values := range r.URL.Query() {
		form[key] = values
	}
	c.form, c.params, c.action = form, parseParams(form), form.Get("Action")
	if scope == "" {
		scope = queryVersions[form.Get("Version")]
	}
	if scope == "iam" || scope == "sts" {
		c.service = scope
	}
	if c.action == "" {
		return refuse("MissingAction", "The request is missing an action or a required parameter.")
	}
	return nil
}

// credentialService reads the service from "Credential=AKID/20260101/us-west-2/ec2/aws4_request".
func credentialService(authorization string) string {
	_, rest, ok := strings.Cut(authorization, "Credential=")
	if !ok {
		return ""
	}
	scope, _, _ := strings.Cut(rest, ",")
	parts := strings.Split(scope, "/")
	if len(parts) < 5 {
		return ""
	}
	return parts[len(parts)-2]
}
