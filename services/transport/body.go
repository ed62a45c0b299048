package transport

import (
	"io"
	"net/http"

	"github.com/aws/aws-sdk-go-v2/aws"
)

// PlainBodies returns a client that passes requests on to another with bodies that can be read and nothing
// else.
//
// The AWS SDK closes the body of a request as soon as the response begins. If net/http has sent the body by
// then, and has still to see that there is no more of it, it asks the SDK's body to write itself
// (io.WriterTo), and that answers io.EOF, which is an error there, while io.EOF is what a Read is expected to
// end with. So net/http closes the connection, and the rest of the response is lost: of a CreateFleet, what
// was launched. It takes a busy machine and an answer that comes at once.
func PlainBodies(next aws.HTTPClient) aws.HTTPClient { return plainBodies{next} }

type plainBodies struct{ next aws.HTTPClient }

// Do implements aws.HTTPClient.
func (c plainBodies) Do(r *http.Request) (*http.Response, error) {
	if r.Body != nil && r.Body != http.NoBody {
		r.Body = struct{ io.ReadCloser }{r.Body}
	}
	return c.next.Do(r)
}
