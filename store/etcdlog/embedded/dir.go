package embedded

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"syscall"
)

// lock locks the directory for this process; the kernel releases it when the process ends, however it ends.
func lock(path string) (*os.File, error) {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, err
	}
	if err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		_ = f.Close()
		return nil, fmt.Errorf("another process uses the directory: %w", err)
	}
	return f, nil
}

func socket(dir, name string) string { return filepath.Join(dir, name+".sock") }

// clientURL of a socket, as clients of etcd write it.
func clientURL(path string) url.URL { return url.URL{Scheme: "unix", Path: path} }

// peerURL of a socket. Of the URLs for peers etcd looks at the host alone: with a path and no host it would
// listen on an abstract socket, which every process of the network namespace can open.
func peerURL(path string) url.URL { return url.URL{Scheme: "unix", Host: path} }

// socketPathMax leaves room for the names of the sockets within the 108 bytes that Linux allows.
const socketPathMax = 80

// socketDir is the directory of the sockets: dir, or one in the temporary directory if the path would be too
// long.
func socketDir(dir string) (string, error) {
	abs, err := filepath.Abs(dir)
	if err != nil {
		return "", err
	}
	sockets := filepath.Join(abs, "sockets")
	if len(sockets) > socketPathMax {
		sum := sha256.Sum256([]byte(abs))
		sockets = filepath.Join(os.TempDir(), "millwright-"+hex.EncodeToString(sum[:6]))
	}
	if err := os.MkdirAll(sockets, 0o700); err != nil {
		return "", err
	}
	return sockets, ours(sockets)
}

// ours refuses a directory that another user made or can write to.
func ours(dir string) error {
	info, err := os.Lstat(dir)
	if err != nil {
		return err
	}
	stat, ok := info.Sys().(*syscall.Stat_t)
	if !info.IsDir() || !ok || int(stat.Uid) != os.Getuid() || info.Mode().Perm()&0o077 != 0 {
		return fmt.Errorf("directory %s is open to other users", dir)
	}
	return nil
}
