// Package nodeclass resolves an EC2NodeClass: what its selectors mean in EC2 now, whether its fields make
// sense, and which conditions follow. Reconciler decides what the object should look like; Apply writes it.
//
// Reconcile is given all NodeClaims that refer to the class. It returns when to reconcile again at the
// latest; any change of the object calls for it too, and so does the end of one of its NodeClaims. An error
// is about the cloud or the API server: what was resolved before stays in the status, the Change still holds
// what did work and should be applied, and the call is repeated with backoff.
//
// Apply writes in the one safe order: the NodeClaims' hashes of a new version, then metadata (finalizer, own
// hash), then status; each only if it differs. A conflict is returned as it is: reconcile again.
//
// Reconcile blocks on AWS calls and has no goroutine of its own: run it as an effect, one at a time per
// class; different classes may run at once. The Change's events name the object and the field.
package nodeclass
