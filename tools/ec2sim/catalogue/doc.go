// Package catalogue holds the EC2 instance types the simulator offers: over a thousand real types, expanded
// from compact tables. A type is a family's row (price per vCPU, processor, size set) crossed with ladders
// that give interfaces, bandwidths and disks by size; families that follow no ladder are listed size by size.
//
// Everything is a pure function of the embedded tables: two loads give equal catalogues. Prices are Linux,
// shared tenancy (bare metal: dedicated), us-east-1; other regions multiply them (see Region).
package catalogue
