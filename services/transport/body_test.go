package transport

import (
	"bytes"
	"io"
	"net/http"
	"testing"
)

type doer func(*http.Request) (*http.Response, error)

func (f doer) Do(r *http.Request) (*http.Response, error) { return f(r) }

// TestPlainBodies: what is passed on has the same content, and does not write itself.
func TestPlainBodies(t *testing.T) {
	for name, body := range map[string]io.Reader{"a body": bytes.NewReader([]byte("Action=DescribeInstances")), "none": nil, "nothing": http.NoBody} {
		t.Run(name, func(t *testing.T) {
			r, err := http.NewRequest(http.MethodPost, "http://ec2.simulated", body)
			if err != nil {
				t.Fatal(err)
			}
			given := r.Body
			_, err = PlainBodies(doer(func(r *http.Request) (*http.Response, error) {
				if name != "a body" {
					if r.Body != given {
						t.Errorf("the body is %T", r.Body)
					}
					return nil, nil
				}
				if _, ok := r.Body.(io.WriterTo); ok {
					t.Error("the body writes itself")
				}
				if all, err := io.ReadAll(r.Body); err != nil || string(all) != "Action=DescribeInstances" {
					t.Errorf("read %q, %v", all, err)
				}
				return nil, r.Body.Close()
			})).Do(r)
			if err != nil {
				t.Fatal(err)
			}
		})
	}
}
