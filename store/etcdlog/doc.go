// Package etcdlog is the event log in etcd, with leader election. FORMAT.md specifies the keys.
//
// Guarantees: those of package store, for any number of clients and processes. Appends of one Log are
// committed in groups, each in one etcd transaction which compares the head, the leader keys and those
// expected aggregates that were not read with this head: aggregates change only together with the head. A
// transaction whose answer was lost is sent again byte for byte: the head admits it at most once. Writers
// that lose the race for the head twice take turns, so that none starves (turn.go). Not guaranteed: success
// under any load; an append gives up after Config.Patience. Test with embedded.Start; the suite is package
// storetest.
package etcdlog
