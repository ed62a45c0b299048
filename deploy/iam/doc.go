// Package iam says what Millwright may do in an AWS account. Statements is the one source: the policies that
// `millctl aws policy` prints, the table in docs/aws-policies.md, and those that the simulated account of the
// end-to-end tests enforces are made from it. Nothing here speaks to AWS.
//
// A policy allows what one service calls and no more: resources are those of one cluster, by tag or by name,
// wherever IAM can tell. Provisioner, disruptor and terminator call nothing, and have no policy.
package iam
