// Package catalog holds instance types and offerings as planners read them: interned once when the World
// folds a Catalog or Prices observation, then shared by reference and never changed.
//
// A Catalog answers the three questions of the instance-type filter (reference: scheduling §7.5) with bit
// sets over its types: which types may satisfy a requirement, which can hold an amount of resources, and
// which are offered in a shape (zone, capacity type). A planner intersects such sets instead of looking at
// types one by one.
//
// Guarantees: Types are sorted by name; equal input gives an equal Catalog. No I/O.
package catalog
