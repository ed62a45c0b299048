// Package plan answers "what would be done with these objects and this catalogue?" without a cluster.
//
// It reads Kubernetes objects from files, shows them to a World as the watcher would (one resync, then a
// heartbeat), and asks the provisioner's planner, with an empty Ledger. What it prints is therefore what the
// provisioner would record if it saw the same things. It reads each document once and keeps only what the
// World keeps, so that memory follows the number of objects, not the size of the files.
//
// Faults of the input are *InputError, which names file, document and field. A pod that fits nowhere is no
// error.
package plan
