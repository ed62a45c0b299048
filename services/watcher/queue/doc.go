// Package queue reads the interruption queue: what AWS announces about instances, by SQS, published as
// Observations.
//
// Guarantees: a message is deleted only after the stream has acknowledged what it said, so each is published
// at least once; one that says nothing, or that nobody can read, is counted, the latter logged, and deleted.
// Whatever SQS answers, and if the queue is not there, reading goes on with backoff. Nothing is received
// while another installation, or nobody, may act on the cluster: the messages stay for who may. Not
// guaranteed: order, and that a message is about an instance of ours: the queue sees a whole account.
// Consumers decide.
//
// A Reader runs beside the polls of services/watcher/ec2, while the watcher leads.
package queue
