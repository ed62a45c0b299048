// Package plan answers "what would be done with these objects and this catalogue?" without a cluster.
//
// It reads Kubernetes objects as they are written in manifests, shows them to a World as the watcher would
// (one resync, then a heartbeat), and asks the provisioner's planner, with an empty Ledger. What it
// reports is therefore what the provisioner would record if it saw the same things. It reads each document
// once and keeps only what the World keeps, so that memory follows the number of objects, not the size of
// the sources.
//
// On top of what a running system knows it answers what-if questions. It opens no files and reads no clock:
// who calls gives Sources and Now.
//
// Faults of the input are *InputError, which names file, document and field. A pod that fits nowhere is no
// error.
package plan
