package preflight

import (
	"context"

	"millwright/services/bucket"
)

// checkArchive asks the bucket what a service will ask of it, and changes nothing there.
func checkArchive(ctx context.Context, cfg Config, r *report) {
	if !bucket.Is(cfg.Archive) {
		r.add(Skipped, "", "Name it by --archive-dir s3://BUCKET/PREFIX.", "no bucket is named for the archive")
		return
	}
	const remedy = "docs/operations.md says how to set up the bucket, millctl aws policy --archive-dir which rights it takes."
	l, err := bucket.Parse(cfg.Archive)
	if err != nil {
		r.add(Failed, "", remedy, "%v", err)
		return
	}
	files, err := bucket.New(ctx, l, "")
	if err != nil {
		r.add(Failed, l.String(), remedy, "%v", err)
		return
	}
	if _, err := files.List(ctx); err != nil {
		r.add(Failed, l.String(), remedy, "%v", err)
		return
	}
	if err := files.CheckConditions(ctx); err != nil {
		r.add(Failed, l.String(), remedy, "%v", err)
		return
	}
	r.add(OK, l.String(), "", "can be listed and written, and keeps conditions of writes")
}
