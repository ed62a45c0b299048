// Package plannertest builds Snapshots for tests of planners and services: objects from a few words, a
// catalogue from a table, a World and a Ledger fed through their real folds, and rapid generators.
//
// Its package script runs the rules of planners, which are written as text in their testdata/rules.
//
// Names, UIDs and times are fixed functions of what the caller says, so that two runs give the same bytes.
package plannertest
