// Package stack runs the local stack of real processes: a Kubernetes control plane (bin/localcluster), the
// EC2 simulator (bin/ec2sim) and Millwright (bin/millwright), in one process or as five services against an
// external etcd and NATS. The demo, `make up` and the end-to-end tests use it.
//
// Guarantees: Start returns when every process is ready; Stop ends them in reverse order and waits; processes
// die with the one that started them (Linux). Each can be killed, paused and started again by name.
package stack
