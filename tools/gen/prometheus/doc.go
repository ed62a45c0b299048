// Package prometheus is a module of its own for Prometheus' server, which the compose stack runs where no
// image registry can be reached.
package prometheus
