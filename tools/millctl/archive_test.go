package main

import (
	"bytes"
	"context"
	"encoding/hex"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"millwright/planner/ledger"
	"millwright/services/bucket"
	"millwright/services/bucket/buckettest"
	"millwright/store/archive"
	"millwright/store/audit"
	"millwright/store/etcdlog"
	etcdembedded "millwright/store/etcdlog/embedded"
)

// archived makes a data directory whose log has records 1 to 20 in the archive and some later ones live, and
// returns the segment.
func archived(t *testing.T) (dir, segment string) {
	t.Helper()
	return archivedIn(t, "")
}

// archivedIn takes the place of the archive, "" for that below the data directory.
func archivedIn(t *testing.T, location string) (dir, segment string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	dir = t.TempDir()
	server, err := etcdembedded.Start(filepath.Join(dir, "etcd"))
	if err != nil {
		t.Fatal(err)
	}
	defer server.Close()
	log, err := etcdlog.Open(ctx, etcdlog.Config{Client: server.Client, Cluster: "test"})
	if err != nil {
		t.Fatal(err)
	}
	defer log.Close()
	write := func(kind ledger.Kind, payload any) error {
		draft, err := audit.OutcomeDraft(audit.Outcome{Kind: kind, Payload: payload})
		if err == nil {
			_, err = log.Append(ctx, draft)
		}
		return err
	}
	for i := range 30 {
		if err := write(ledger.KindClaimClosed, &ledger.ClaimClosed{Claim: fmt.Sprint("claim-", i)}); err != nil {
			t.Fatal(err)
		}
	}
	if location == "" {
		location = filepath.Join(dir, "archive")
	}
	to, err := bucket.Open(ctx, location, log.ID(), time.Now)
	if err != nil {
		t.Fatal(err)
	}
	a := archive.NewArchiver(archive.Config{Cluster: "test", Live: log, Archive: to,
		Note: func(_ context.Context, s archive.Summary) error {
			segment = s.Path
			return write(ledger.KindSegmentArchived, &ledger.SegmentArchived{First: s.First, Last: s.Last, Hash: hex.EncodeToString(s.Hash[:]),
				File: s.Name(), SHA256: s.SHA256, Bytes: s.Bytes})
		}})
	if _, err := a.Archive(ctx, 20); err != nil {
		t.Fatal(err)
	}
	return dir, segment
}

func millctl(dir string, args ...string) (string, error) {
	var out bytes.Buffer
	c := command()
	c.SetOut(&out)
	c.SetArgs(append(args, "--cluster-name=test", "--data-dir="+dir))
	err := c.Execute()
	return out.String(), err
}

// All that reads the archive of a directory reads one in a bucket by the same flag.
func TestABucketAndLiveLogReadAsOne(t *testing.T) {
	server := buckettest.Start(t)
	server.Bucket(t, "logs", false)
	location := server.Location(t, "logs/millwright")
	dir, segment := archivedIn(t, location)
	for _, c := range []struct {
		args []string
		want string
	}{
		{[]string{"log"}, "claim-0"},
		{[]string{"why", "nodeclaim", "claim-3"}, "claim-3"},
		{[]string{"verify"}, "32 records, hash chain intact"},
		{[]string{"replay"}, "0 divergences"},
		{[]string{"archive", "ls"}, segment},
		{[]string{"archive", "verify"}, "1 segments intact, 1 of them as on record"},
		{[]string{"archive", "set-aside"}, "nothing to set aside"},
		{[]string{"archive", "prune", "--older-than", "8760h"}, "0 segments deleted"},
	} {
		out, err := millctl(dir, append(c.args, "--archive-dir="+location)...)
		if err != nil || !strings.Contains(out, c.want) {
			t.Errorf("%v: %v, no %q in\n%s", c.args, err, c.want, out)
		}
	}
	if !strings.HasPrefix(segment, "s3://logs/millwright/") {
		t.Error(segment)
	}
	if _, err := millctl(dir, "verify", "--archive-dir=s3://logs?bogus=1"); err == nil || !strings.Contains(err.Error(), "bogus") {
		t.Errorf("a parameter that there is not: %v", err)
	}
}

func TestArchiveAndLiveLogReadAsOne(t *testing.T) {
	dir, segment := archived(t)
	for _, c := range []struct {
		args []string
		want []string
		not  string
	}{
		{[]string{"log"}, []string{"     1 ", "claim-0", "    20 ", "    21 ", "claim-29", "records 1 to 20 archived"}, ""},
		{[]string{"log", "--archive-dir=" + t.TempDir()}, []string{"    21 ", "claim-29"}, "claim-3 "},
		{[]string{"verify"}, []string{"32 records, hash chain intact"}, ""},
		{[]string{"why", "nodeclaim", "claim-3"}, []string{"claim-3"}, ""},
		{[]string{"archive", "ls"}, []string{filepath.Base(segment), "1 segments"}, ""},
		{[]string{"archive", "verify"}, []string{"1 segments intact, 1 of them as on record"}, ""},
		{[]string{"replay"}, []string{"0 divergences"}, ""},
	} {
		out, err := millctl(dir, c.args...)
		if err != nil {
			t.Errorf("%v: %v", c.args, err)
		}
		for _, want := range c.want {
			if !strings.Contains(out, want) {
				t.Errorf("%v: no %q in\n%s", c.args, want, out)
			}
		}
		if c.not != "" && strings.Contains(out, c.not) {
			t.Errorf("%v: %q in\n%s", c.args, c.not, out)
		}
	}
	data, err := os.ReadFile(segment)
	if err != nil {
		t.Fatal(err)
	}
	data[len(data)/2] ^= 1
	if err := os.WriteFile(segment, data, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, args := range [][]string{{"archive", "verify"}, {"verify"}} {
		if _, err := millctl(dir, args...); err == nil || !strings.Contains(err.Error(), filepath.Base(segment)) {
			t.Errorf("%v of a changed segment: %v", args, err)
		}
	}
}

func TestTheArchiveIsPruned(t *testing.T) {
	dir, segment := archived(t)
	if _, err := millctl(dir, "archive", "prune"); err == nil || !strings.Contains(err.Error(), "--older-than") {
		t.Errorf("without an age: %v", err)
	}
	for _, args := range [][]string{{"archive", "prune", "--older-than=1h"}, {"archive", "prune", "--older-than=1ns"}} {
		if out, err := millctl(dir, args...); err != nil || !strings.Contains(out, "0 segments deleted") {
			t.Errorf("%v: %s%v", args, out, err)
		}
	}
	if out, err := millctl(dir, "archive", "set-aside"); err != nil || !strings.Contains(out, "nothing to set aside") {
		t.Errorf("%s%v", out, err)
	}
	if _, err := os.Stat(segment); err != nil {
		t.Errorf("the newest segment is gone: %v", err)
	}
}

func TestAPrunedArchiveIsReadFromWhereItBegins(t *testing.T) {
	dir, first := archived(t)
	extend(t, dir)
	out, err := millctl(dir, "archive", "prune", "--older-than=1ns")
	if err != nil || !strings.Contains(out, "1 segments deleted") || !strings.Contains(out, "records 1 to 20") {
		t.Fatalf("%s%v", out, err)
	}
	if _, err := os.Stat(first); err == nil {
		t.Error("the segment is there still")
	}
	for _, c := range []struct {
		args      []string
		want, not string
	}{
		{[]string{"log"}, "    21 ", "    20 "},
		{[]string{"verify"}, "hash chain intact", ""},
		{[]string{"archive", "verify"}, "1 segments intact", ""},
	} {
		out, err := millctl(dir, c.args...)
		if err != nil || !strings.Contains(out, c.want) || c.not != "" && strings.Contains(out, c.not) {
			t.Errorf("%v: %s%v", c.args, out, err)
		}
	}
}

// extend archives the records up to 28 too.
func extend(t *testing.T, dir string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	server, err := etcdembedded.Start(filepath.Join(dir, "etcd"))
	if err != nil {
		t.Fatal(err)
	}
	defer server.Close()
	log, err := etcdlog.Open(ctx, etcdlog.Config{Client: server.Client, Cluster: "test"})
	if err != nil {
		t.Fatal(err)
	}
	defer log.Close()
	a := archive.NewArchiver(archive.Config{Cluster: "test", Live: log, Archive: archive.Open(filepath.Join(dir, "archive"), log.ID())})
	if _, err := a.Archive(ctx, 28); err != nil {
		t.Fatal(err)
	}
}
