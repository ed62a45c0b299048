package api

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// anyText is what somebody may send for a text: something plausible, or anything.
func anyText(t *rapid.T, name string) string {
	plausible := rapid.SampledFrom([]string{"", "0", "1", "2", "-1", "500", "501", "18446744073709551615", "18446744073709551616", "1h", "-1h", "9999999h", "0001-01-01T00:00:00Z",
		"9999-12-31T23:59:59Z", "true", "p", "a", "default/waits", "node", "pod", "offering", "m5.large/us-west-2a/spot", "..", "%00", "\x00", "node/a", "claim/", "CommandProposed",
		"Proposed", "kind: Pod", "apiVersion: karpenter.sh/v1\nkind: NodePool\nmetadata: {name: p}\nspec: {limits: {cpu: -1}, template: {spec: {expireAfter: x}}}",
		"apiVersion: karpenter.sh/v1\nkind: NodePool\nmetadata: {name: p}\nspec: {replicas: 9223372036854775807, weight: -1, template: {spec: {requirements: [{key: '', operator: Gt, values: []}]}}}",
		"apiVersion: v1\nkind: Pod\nmetadata: {name: x}\nspec: {topologySpreadConstraints: [{maxSkew: -1}], containers: [{resources: {requests: {cpu: -9e18}}}]}"})
	return rapid.OneOf(plausible, plausible, rapid.String()).Draw(t, name)
}

// anyBody is an object with the fields of a route's body, or anything.
func anyBody(t *rapid.T, rt *route) string {
	fields := []string{"reason", "for", "level"}
	if rt.question != nil {
		fields = []string{"manifests", "catalog", "prices", "nodeTime", "record", "alone", "only", "now", "preferencePolicy", "nodeCost", "text", "unsettled", "object", "since", "until", "from", "to", "options", "reason"}
		own := reflect.TypeOf(rt.question)
		fields = slices.DeleteFunc(fields, func(name string) bool { // one that it does not have would be refused, and nothing else tried
			_, has := own.FieldByNameFunc(func(f string) bool { return strings.EqualFold(f, name) })
			return !has && rapid.IntRange(0, 20).Draw(t, "without "+name) > 0
		})
	}
	body := map[string]any{}
	for _, name := range rapid.SliceOfNDistinct(rapid.SampledFrom(fields), 0, len(fields), rapid.ID[string]).Draw(t, "fields") {
		body[name] = rapid.OneOf(rapid.Map(rapid.Bool(), func(b bool) any { return b }), rapid.Map(rapid.Uint64(), func(n uint64) any { return n })).Draw(t, "value")
		if name != "record" && name != "alone" || rapid.Bool().Draw(t, "as text") {
			body[name] = anyText(t, name)
		}
	}
	b, err := json.Marshal(body)
	if err != nil {
		t.Fatal(err)
	}
	return rapid.OneOf(rapid.Just(string(b)), rapid.Just(string(b)), rapid.String()).Draw(t, "body")
}

// anyPath is a route's path with anything for what it names.
func anyPath(t *rapid.T, rt *route) string {
	parts := strings.Split(rt.path, "/")
	for i, p := range parts {
		if strings.HasPrefix(p, "{") {
			parts[i] = url.PathEscape(anyText(t, p))
		}
	}
	query := url.Values{}
	for _, p := range rt.parameters {
		if !rt.inPath(p.name) && rapid.Bool().Draw(t, "with "+p.name) {
			query.Add(p.name, anyText(t, p.name))
		}
	}
	return Prefix + strings.Join(parts, "/") + "?" + query.Encode()
}

// Every operation, with whatever parameters and bodies, for whomever: the answer is one of those that are
// documented, in JSON, and never that the console failed; and nobody gives an order without the right.
func TestEveryOperationWithAnyParameters(t *testing.T) {
	r := newRig(t)
	statuses := []int{http.StatusOK, http.StatusBadRequest, http.StatusUnauthorized, http.StatusForbidden, http.StatusNotFound, http.StatusConflict,
		http.StatusRequestEntityTooLarge, http.StatusTooManyRequests, http.StatusServiceUnavailable}
	moved := []int{http.StatusMovedPermanently, http.StatusTemporaryRedirect, http.StatusMethodNotAllowed} // by the mux, of paths with .. or without a name
	seen := map[string]int{}
	rapid.Check(t, func(t *rapid.T) {
		rt := &routes[rapid.IntRange(0, len(routes)-1).Draw(t, "route")]
		path, body := anyPath(t, rt), ""
		if rt.method == http.MethodPost {
			body = anyBody(t, rt)
		}
		token := rapid.SampledFrom([]string{"", "stranger", "nobody", "reader", "viewer", "viewer", "operator", "operator", "operator"}).Draw(t, "token")
		ctx, cancel := context.WithCancel(r.Context())
		if rt.stream != nil {
			cancel() // who reads a tail has gone
		}
		defer cancel()
		req := httptest.NewRequest(rt.method, path, strings.NewReader(body)).WithContext(ctx)
		req.Header.Set("Authorization", "Bearer "+token)
		req.Header.Set("Content-Type", rapid.SampledFrom([]string{"application/json", "application/json", "application/json", "text/plain", ""}).Draw(t, "type"))
		req.Header.Set("Last-Event-ID", anyText(t, "last"))
		before, err := r.log.Head(r.Context())
		if err != nil {
			t.Fatal(err)
		}
		w := httptest.NewRecorder()
		r.Config.Handler.ServeHTTP(w, req)
		r.clock.Advance(time.Second)
		seen[fmt.Sprint(rt.id, " ", w.Code)]++
		if slices.Contains(moved, w.Code) {
			return
		}
		if !slices.Contains(statuses, w.Code) {
			t.Fatalf("%s %s as %q with %q: %d %s", rt.method, path, token, body, w.Code, w.Body)
		}
		if w.Code != http.StatusOK {
			d := json.NewDecoder(bytes.NewReader(w.Body.Bytes()))
			d.DisallowUnknownFields()
			if p := (Problem{}); d.Decode(&p) != nil || p.Status != w.Code || p.Message == "" {
				t.Fatalf("%s %s: %d %s", rt.method, path, w.Code, w.Body)
			}
		} else if rt.stream == nil && rt.text == nil && !json.Valid(w.Body.Bytes()) {
			t.Fatalf("%s %s: %s", rt.method, path, w.Body)
		}
		after, err := r.log.Head(r.Context())
		if err != nil || after.Seq != before.Seq && (rt.body == nil && !rt.recorded || token != "operator" || w.Code != http.StatusOK) {
			t.Fatalf("%s %s as %q: %d, and record %d was written, %v", rt.method, path, token, w.Code, after.Seq, err)
		}
	})
	t.Log(len(seen), "kinds of answers:", seen)
}
