package e2e

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"
)

// The API server's etcd is restored from a backup: it counts resourceVersions from where the backup was made,
// and an instance runs that it knows nothing of. Nothing that happens from then on is overlooked by a process
// that had read further.
func TestAnAPIServerRestoredFromABackup(t *testing.T) {
	e := start(t, nil)
	e.apply(defaultClass)
	e.apply(defaultPool)
	e.deploy("web", 2, "3", "1Gi", apart("web"))
	e.running("web", 2)
	etcd := filepath.Join(e.stack.Cluster.DataDir, "etcd")
	if err := e.stack.RestartCluster(t.Context(), func() error { return os.CopyFS(etcd+".backup", os.DirFS(etcd)) }); err != nil {
		t.Fatal(err)
	}
	e.deploy("other", 1, "5", "1Gi")
	e.running("other", 1)
	for i := range 500 { // versions that it does not reach again soon
		e.patchDeployment("web", fmt.Sprintf(`{"metadata":{"annotations":{"edited":"%d"}}}`, i))
	}
	if err := e.stack.RestartCluster(t.Context(), func() error {
		if err := os.RemoveAll(etcd); err != nil {
			return err
		}
		return os.Rename(etcd+".backup", etcd)
	}); err != nil {
		t.Fatal(err)
	}
	e.deploy("later", 1, "7", "1Gi")
	e.running("later", 1)
	e.matched()
	e.scale("later", 0)
	e.scale("web", 0)
	e.clean()
	e.sound()
}
