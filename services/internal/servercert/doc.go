// Package servercert is the certificate that a server of the process shows: one from files, read again when
// they change, or one of its own, renewed in time and signed by a CA of its own.
//
// Guarantees: files are looked at once in LookEvery, at a handshake; one that cannot be read or made anew
// leaves the last one in place. It does not end connections that were made with an older one.
package servercert
