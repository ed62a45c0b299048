package embedded_test

import (
	"bufio"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
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

// listening returns the TCP addresses on which this process listens, as the kernel writes them.
func listening(t *testing.T) []string {
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
