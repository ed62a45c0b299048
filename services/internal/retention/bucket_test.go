package retention_test

import (
	"strings"
	"testing"
	"time"

	"millwright/services/bucket"
	"millwright/services/bucket/buckettest"
	"millwright/services/internal/retention"
	"millwright/store/archive"
)

// While the bucket is away the log is written and checkpointed, and keeps everything; once it is there,
// what is old moves.
func TestABucketThatIsAwayHoldsUpArchivingAlone(t *testing.T) {
	server := buckettest.Start(t)
	d := openDatabase(t, 64<<20)
	to, err := bucket.Open(bounded(t), server.Location(t, "logs/millwright"), d.log.ID(), time.Now)
	if err != nil {
		t.Fatal(err)
	}
	defer to.Close()
	policy := retention.Policy{Every: 50, Age: time.Hour, Records: 60}
	r := lead(t, d.log, d.elector)
	away := d.keeper(r, to, policy)
	var failed error
	for n := range 3 {
		d.write(t, n*60, 60)
		r.awaitFold()
		if err := away.Round(bounded(t)); err != nil {
			failed = err
		}
	}
	if failed == nil || !strings.Contains(failed.Error(), "no bucket has this name") {
		t.Errorf("the rounds ended with %v", failed)
	}
	if n := len(checkpointsOf(t, d.log)); n < 3 {
		t.Errorf("%d checkpoints", n)
	}
	if base, err := d.log.Base(bounded(t)); err != nil || base.Seq != 0 {
		t.Errorf("live from %d on, %v", base.Seq+1, err)
	}
	server.Bucket(t, "logs", true)
	r.keep(d.keeper(r, to, policy)) // which looks at once
	base, err := d.log.Base(bounded(t))
	if err != nil || base.Seq == 0 {
		t.Errorf("nothing is archived: %v", err)
	}
	joined := archive.Join(d.log, to)
	if _, err := joined.Verify(bounded(t)); err != nil {
		t.Error(err)
	}
	if page, err := joined.Read(bounded(t), 2, 1); err != nil || len(page) != 1 || page[0].Seq != 2 {
		t.Errorf("read what is archived: %v, %v", page, err)
	}
}
