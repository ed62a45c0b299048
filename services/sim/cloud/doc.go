// Package cloud is EC2 in memory on virtual time: fleets, instances, launch templates, with the guarantees of
// their calls and no others.
//
// Guarantees: a client token answers equal bytes with the first answer again, also after the instance has
// ended or when there was none, and other bytes with IdempotentParameterMismatch; describe calls see the
// past, by a lag drawn for each; offerings run out and come back. Errors are those of services/internal/ec2,
// so that ec2.Classify sorts them. It runs on one goroutine.
package cloud
