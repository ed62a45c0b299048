package embedded_test

import (
	"bufio"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestNothingListensOnTheNetwork(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	if n := len(listening(t)); n != 1 {
		t.Fatalf("%d listeners are found, one is open: the test does not see", n)
	}
	_ = l.Close()
	s := start(t, t.TempDir())
	defer s.Close()
	if list := listening(t); len(list) > 0 {
		t.Errorf("listens on %v", list)
	}
}

// An abstract unix socket is open to every process of the network namespace, whoever's it is; and where the
// root file system is read-only etcd does not get to close one, so that the process would not end.
func TestUnixSocketsAreFilesOfThisUser(t *testing.T) {
	l, err := net.Listen("unix", "")
	if err != nil {
		t.Fatal(err)
	}
	if list := unixSockets(t); len(list) != 1 || !strings.HasPrefix(list[0], "@") {
		t.Fatalf("an abstract socket is open, found are %q: the test does not see", list)
	}
	_ = l.Close()
	dir := t.TempDir()
	s := start(t, dir)
	defer s.Close()
	want := []string{filepath.Join(dir, "sockets", "client.sock"), filepath.Join(dir, "sockets", "peer.sock")}
	if diff := cmp.Diff(want, unixSockets(t)); diff != "" {
		t.Errorf("unix sockets on which it listens (-want +got):\n%s", diff)
	}
}

// unixSockets returns the paths of the unix sockets on which this process listens, sorted; those of abstract
// ones begin with @.
func unixSockets(t *testing.T) (list []string) {
	t.Helper()
	own := ownSockets(t)
	b, err := os.ReadFile("/proc/self/net/unix")
	if err != nil {
		t.Fatal(err)
	}
	const flags, inode, path, listens = 3, 6, 7, "00010000"
	for line := range strings.Lines(string(b)) {
		fields := append(strings.Fields(line), "")
		if len(fields) > path && fields[flags] == listens && own[fields[inode]] {
			list = append(list, fields[path])
		}
	}
	slices.Sort(list)
	return list
}

// ownSockets are the inodes of this process's sockets.
func ownSockets(t *testing.T) map[string]bool {
	t.Helper()
	own := map[string]bool{}
	links, err := filepath.Glob("/proc/self/fd/*")
	if err != nil {
		t.Fatal(err)
	}
	for _, link := range links {
		if target, err := os.Readlink(link); err == nil {
			inode, ok := strings.CutPrefix(target, "socket:[")
			own[strings.TrimSuffix(inode, "]")] = ok
		}
	}
	return own
}

// listening returns the TCP addresses on which this process listens, as the kernel writes them.
func listening(t *testing.T) []string {
	t.Helper()
	own := ownSockets(t)
	var list []string
	for _, table := range []string{"/proc/self/net/tcp", "/proc/self/net/tcp6"} {
		list = append(list, listenersIn(t, table, own)...)
	}
	return list
}

func listenersIn(t *testing.T, table string, own map[string]bool) (list []string) {
	f, err := os.Open(table)
	if os.IsNotExist(err) {
		return nil // no IPv6 here
	}
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	const state, inode, listen = 3, 9, "0A"
	for lines := bufio.NewScanner(f); lines.Scan(); {
		fields := strings.Fields(lines.Text())
		if len(fields) > inode && fields[state] == listen && own[fields[inode]] {
			list = append(list, fields[1])
		}
	}
	return list
}
