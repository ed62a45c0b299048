// Package consoletest is what the tests of the console's packages share: who may do what, a log that is read
// into an Index, a World with a node and a pod that waits, and a View of them.
package consoletest
