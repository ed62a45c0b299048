// Package webhook is the conversion webhook of the CRDs that serve v1beta1 (reference: api §5): it answers
// ConversionReviews over TLS, makes and renews its own certificates in a Secret, and writes their CA into the
// CRDs.
//
// Guarantees: any number of replicas share one Secret (each write compares its resourceVersion), and all of
// them serve certificates that the CAs in the CRDs verify, even while a CA is replaced. A bad object is
// answered with a failure that names it and the field. Requests are bounded in size and time. It needs only
// the API server: no event log, no stream. Not guaranteed: answers about v1beta1 NodeClaims while the API
// server cannot be asked for their NodePool; those fail. Test the handler by HTTP, the certificates by their
// dates, the whole on a real API server.
package webhook
