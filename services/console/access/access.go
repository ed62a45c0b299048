// Package access names the rights that the console asks for, and says where browsers keep a token.
package access

import (
	"time"

	"millwright/services/internal/review"
)

// Group of the resources whose rights are asked for. They are no objects: only rights name them.
const Group = "millwright.sh"

// CacheFor is how long an answer of the API server counts.
const CacheFor = 5 * time.Second

// Rights that the console asks for.
var (
	Read    = review.Right{Verb: "get", Group: Group, Resource: "decisions"}
	Plan    = review.Right{Verb: "create", Group: Group, Resource: "plans"}
	Approve = review.Right{Verb: "create", Group: Group, Resource: "commands", Subresource: "approve"}
	Bundle  = review.Right{Verb: "get", Group: Group, Resource: "bundles"}
	Control = review.Right{Verb: "update", Group: Group, Resource: "control"}
)
