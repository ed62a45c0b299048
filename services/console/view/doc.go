// Package view is what the console shows, as data: how things stand now, what was recorded, and why.
//
// Guarantees: everything is made of immutable versions of World and Ledger and of the log's records, so that
// no reader makes a service wait; what is made for one reader is shared by all who ask within a second;
// every list has a limit. Not guaranteed: that World and Ledger are the newest. AsOf says how old they are.
package view
