package retention_test

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"millwright/services/internal/retention"
	"millwright/store/archive"
)

// etcd is restored from a backup that is older than the archive. What was decided since then must stay.
func TestAfterARestoreOfEtcdNothingIsDeletedUntilAPersonHasDecided(t *testing.T) {
	etcd, backup, archives := filepath.Join(t.TempDir(), "etcd"), filepath.Join(t.TempDir(), "etcd"), t.TempDir()
	policy := retention.Policy{Every: 50, Records: 20}
	const quota = 256 << 20
	t.Run("before the backup", func(t *testing.T) {
		d := openAt(t, etcd, archives, quota)
		r := lead(t, d.log, d.elector)
		k := d.keeper(r, d.dir, policy)
		for n := range 3 {
			d.write(t, n*60, 60)
			r.keep(k)
		}
	})
	if err := os.CopyFS(backup, os.DirFS(filepath.Join(etcd))); err != nil {
		t.Fatal(err)
	}
	t.Run("after the backup", func(t *testing.T) {
		d := openAt(t, etcd, archives, quota)
		r := lead(t, d.log, d.elector)
		k := d.keeper(r, d.dir, policy)
		for n := range 3 {
			d.write(t, 1000+n*60, 60)
			r.keep(k)
		}
	})
	d := openAt(t, backup, archives, quota)
	base, err := d.log.Base(bounded(t))
	if err != nil || base.Seq == 0 {
		t.Fatalf("base %+v, %v", base, err)
	}
	r := lead(t, d.log, d.elector)
	k := d.keeper(r, d.dir, policy)
	var failed error
	for n := range 5 {
		d.write(t, 2000+n*60, 60)
		r.awaitFold()
		failed = errors.Join(failed, k.Round(bounded(t)))
	}
	if !errors.Is(failed, archive.ErrForked) {
		t.Errorf("the rounds ended with %v", failed)
	}
	r.wantAlarm("ArchiveForked", "nothing is deleted")
	if now, err := d.log.Base(bounded(t)); err != nil || now != base {
		t.Errorf("live from %d on, it was from %d: %v", now.Seq+1, base.Seq+1, err)
	}

	aside, err := d.dir.SetAside(bounded(t), "test", d.log)
	if err != nil || aside == "" {
		t.Fatalf("set aside in %q: %v", aside, err)
	}
	k = d.keeper(r, d.dir, policy) // which looks at once
	d.write(t, 3000, 60)
	r.keep(k)
	if now, err := d.log.Base(bounded(t)); err != nil || now.Seq <= base.Seq {
		t.Errorf("nothing is archived: live from %d on, %v", now.Seq+1, err)
	}
	if _, err := archive.Join(d.log, d.dir).Verify(bounded(t)); err != nil {
		t.Error(err)
	}
}
