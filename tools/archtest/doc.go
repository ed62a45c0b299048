// Package archtest holds the tests of the structure: who may import whom, how large things may grow, and what
// may not appear in the pure packages. The tables give the reason for each ban.
package archtest
