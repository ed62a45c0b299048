// Package review says who asks, and what they may do: bearer tokens are checked by TokenReview, rights by
// SubjectAccessReview, both by the API server alone.
//
// Guarantees: an answer is at most Config.CacheFor old, or StaleFor more while the API server gives none, and
// that to a question about an act is new; tokens are kept only as hashes; the number of reviews, and of what
// is remembered, is bounded whatever is asked. Without an answer of the API server nothing else is allowed.
package review
