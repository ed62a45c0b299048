// Package scale measures what each service costs in a settled cluster of 5,000 nodes and 150,000 pods: per
// event, and at rest.
//
// It has benchmarks only; `make bench` prints their figures.
package scale
