// Package version holds tables of which any number of versions exist at once: World and Ledger are made of
// them.
//
// A version is a plain copy of the table's struct. Copies share all rows; a change to one of them copies the
// few rows on the path and leaves those of the others untouched. So a version costs nothing to take, and only
// the difference to keep.
//
// Whoever changes a table names an Owner. What was copied for an Owner is changed in place by the same Owner,
// so a long fold between two versions copies nothing twice. To take a version: copy the struct, then change
// the original under a new Owner only. Reading a version is safe concurrently with anything; changing one is
// not safe concurrently with any other use of the same struct.
//
// Worked example, with Owners a and b:
//
//	t.Set(a, "x", 1)   // t: x=1, rows belong to a
//	v := t             // v and t share them; from here on t is changed as b
//	t.Set(b, "y", 2)   // t: x=1 y=2 in rows of b; v: x=1 in rows of a
//	t.Set(b, "y", 3)   // in place
//
// Not guaranteed: the order of All. Values are never copied: changing what a value points to changes all
// versions.
package version
