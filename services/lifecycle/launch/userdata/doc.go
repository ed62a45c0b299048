// Package userdata renders what an instance reads at its first boot, by AMI family: how the node joins the
// cluster, merged with the user's own text (reference: userdata).
//
// Guarantees: equal inputs give equal bytes (everything is sorted); Millwright's values win over the user's
// where both set one, except that maps of labels are merged; what the user wrote otherwise survives, unknown
// Bottlerocket settings included; the result is at most 16 KiB, compressed where the
// family allows it, or an error. Errors are about the user's text
// or the inputs: trying again does not help.
package userdata
