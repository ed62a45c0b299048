// Package version holds the version that the linker sets.
package version

// Version of this build.
var Version = "dev"
