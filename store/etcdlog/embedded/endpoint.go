package embedded

import "path/filepath"

// Endpoints of the server that some process of this user runs, or would run, on dir.
func Endpoints(dir string) ([]string, error) {
	sockets, err := socketDir(dir)
	if err != nil {
		return nil, err
	}
	return []string{"unix://" + socket(sockets, "client")}, nil
}

// Running reports whether a process currently runs a server on dir.
func Running(dir string) bool {
	f, err := lock(filepath.Join(dir, "lock"))
	if err != nil {
		return true
	}
	_ = f.Close()
	return false
}
