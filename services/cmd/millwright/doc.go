// Command millwright is all of Millwright's services: each as a process of its own, or all in one.
//
// This package reads flags, connects and constructs; what the services do is in their own packages.
package main
