package pseudonyms_test

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"flag"
	"fmt"
	"maps"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/klauspost/compress/zstd"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"millwright/events"
	"millwright/planner"
	"millwright/planner/plannertest"
	"millwright/store"
	"millwright/store/audit"
	"millwright/store/audit/pseudonyms"
	"millwright/store/audit/recording"
)

// whole is a recording as a log without checkpoints.
type whole struct{ *recording.Recording }

func (whole) Aggregate(context.Context, string) (uint64, error) { return 0, nil }
func (whole) GetBlob(context.Context, string) ([]byte, error)   { return nil, store.ErrNotFound }

func check(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// bundled is a recording as a bundle, with the range of its records.
func bundled(t *testing.T, file string) (*recording.Contents, audit.Range) {
	t.Helper()
	rec, err := recording.Open(file)
	check(t, err)
	all, err := rec.Read(t.Context(), 1, 1<<20)
	check(t, err)
	within := audit.Range{From: 1, To: uint64(len(all))}
	var out bytes.Buffer
	_, err = recording.WriteBundle(t.Context(), &out, whole{rec}, rec, recording.BundleRequest{
		From: 1, To: within.To, Cluster: "demo", About: "node/ip-10-0-0-1", Now: plannertest.Start})
	check(t, err)
	b, err := recording.ReadBundle(out.Bytes())
	check(t, err)
	c, err := b.Contents()
	check(t, err)
	return c, within
}

var allVersions = flag.Bool("all-versions", false, "rename all logs of earlier versions of the planners, not one of each")

// Every log of the corpus replays with pseudonyms as it does without, also once it was written and read, and
// none of its names is left.
func TestBundlesOfTheCorpus(t *testing.T) {
	files, err := filepath.Glob("../testdata/v*/*.rec")
	check(t, err)
	last := ""
	for _, file := range files {
		dir := filepath.Dir(file)
		if dir == last && !*allVersions && filepath.Base(dir) != fmt.Sprintf("v%d", planner.Version) {
			continue
		}
		last = dir
		t.Run(filepath.Base(filepath.Dir(file))+"/"+filepath.Base(file), func(t *testing.T) {
			c, within := bundled(t, file)
			plain := c.Bundle()
			there, err := audit.Replay(t.Context(), plain, plain, within)
			check(t, err)
			renamed, table, err := pseudonyms.Rename(t.Context(), c)
			check(t, err)
			var out bytes.Buffer
			check(t, renamed.Write(&out))
			b, err := recording.ReadBundle(out.Bytes())
			check(t, err)
			here, err := audit.Replay(t.Context(), b, b, within)
			check(t, err)
			if there.Counts() != here.Counts() || len(there.Divergences) != len(here.Divergences) || len(b.Manifest.Pseudonyms.Withheld) > 0 {
				t.Errorf("%s; with pseudonyms %s, %v, withheld %v", there.Counts(), here.Counts(), here.Divergences, b.Manifest.Pseudonyms.Withheld)
			}
			if b.Manifest.LogID == c.Manifest.LogID || b.Manifest.About != "" {
				t.Errorf("%+v", b.Manifest)
			}
			ordered(t, table)
			original := namesOf(t, c)
			nothingLeft(t, original, textOf(t, renamed))
			for name := range original {
				if _, known := table[name]; !known && len(name) > 3 && !public[name] {
					t.Errorf("%q has no pseudonym", name)
				}
			}
		})
	}
}

// public words that somebody gave things as names.
var public = map[string]bool{"true": true, "pod-template-hash": true, "controller-revision-hash": true}

// ordered demands that pseudonyms compare with each other as names do. Ids of logs are random, and hashes are
// computed.
func ordered(t *testing.T, table pseudonyms.Table) {
	t.Helper()
	var last string
	used := map[string]string{}
	for _, name := range slices.Sorted(maps.Keys(table)) {
		if other, ok := used[table[name]]; ok {
			t.Errorf("%q and %q have the pseudonym %q", name, other, table[name])
		}
		used[table[name]] = name
		if computed.MatchString(name) {
			continue
		}
		if last != "" && table[last] >= table[name] {
			t.Errorf("%q < %q, but %q and %q", last, name, table[last], table[name])
		}
		last = name
	}
}

var computed = regexp.MustCompile(`^([0-9a-f]{32}(/.*)?|[0-9a-f]{64}|[0-9a-f]{16}|\d{16,20})$`)

// ids that occur in texts, requests and values.
var ids = regexp.MustCompile(`[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}|\b(i|ami|subnet|sg|lt|vol|cr)-[0-9a-f]{6,}|\bip-[-0-9]+\.[a-z0-9.-]+|\b[0-9a-f]{32}\b|\barn:aws[-a-z]*:[-a-z0-9]+:[-a-z0-9]*:\d{12}:`)

// namesOf collects the names in a bundle, not as the package does: what objects are called and labelled, what
// payloads name, and whatever looks like an id.
func namesOf(t *testing.T, c *recording.Contents) map[string]bool {
	t.Helper()
	found := map[string]bool{c.Manifest.Cluster: true}
	for _, m := range c.Messages {
		o, err := events.Decode(m.Data)
		check(t, err)
		for _, part := range strings.Split(o.Name, "/") {
			found[part] = true
		}
		found[string(o.UID)] = true
		if object, ok := o.Object.(metav1.Object); ok {
			found[object.GetName()], found[object.GetNamespace()] = true, true
			for _, owner := range object.GetOwnerReferences() {
				found[owner.Name], found[string(owner.UID)] = true, true
			}
			for key, value := range object.GetLabels() {
				if !strings.Contains(key, ".") {
					found[key], found[value] = true, true
				}
			}
		}
	}
	for _, r := range c.Records {
		for _, id := range ids.FindAllString(string(r.Payload)+string(r.Explanation), -1) {
			found[id] = true
		}
		for _, s := range slices.Concat(r.Subjects, r.Advances) {
			if kind, name, ok := strings.Cut(s, "/"); ok && kind != "ledger" && kind != "pod" {
				found[name] = true
			}
		}
	}
	delete(found, "")
	maps.DeleteFunc(found, func(name string, _ bool) bool { return public[name] })
	for _, kind := range events.InterruptionKinds {
		delete(found, kind)
	}
	return found
}

// textOf is all that is in a bundle, decompressed, with what is in base64 decoded.
func textOf(t *testing.T, c *recording.Contents) (list [][]byte) {
	t.Helper()
	manifest, err := json.Marshal(c.Manifest)
	check(t, err)
	list = append(list, manifest)
	for _, r := range c.Records {
		list = append(list, r.Payload, r.Explanation, []byte(strings.Join(slices.Concat(r.Subjects, r.Advances, []string{r.Service, r.Position.Incarnation}), " ")))
	}
	for _, m := range c.Messages {
		list = append(list, m.Data)
	}
	z, err := zstd.NewReader(nil)
	check(t, err)
	defer z.Close()
	for _, blobs := range []map[string][]byte{c.LogBlobs, c.StreamBlobs} {
		for name, data := range blobs {
			list = append(list, []byte(name), data)
			if plain, err := z.DecodeAll(data, nil); err == nil {
				list = append(list, plain)
			}
		}
	}
	for _, text := range list {
		for _, m := range regexp.MustCompile(`"[A-Za-z0-9+/]{8,}={0,2}"`).FindAll(text, -1) {
			if data, err := base64.StdEncoding.DecodeString(string(m[1 : len(m)-1])); err == nil {
				list = append(list, data)
			}
		}
	}
	return list
}

// nothingLeft looks for names as words; long ones are looked for as parts of words too.
func nothingLeft(t *testing.T, names map[string]bool, texts [][]byte) {
	t.Helper()
	word := regexp.MustCompile(`[A-Za-z0-9][-A-Za-z0-9.]*[A-Za-z0-9]`)
	for _, text := range texts {
		text = tenancies.ReplaceAll(text, nil)
		for _, w := range word.FindAll(text, -1) {
			if w := string(w); names[w] && len(w) > 2 && !public[w] {
				t.Fatalf("%q is left in %.60q", w, text)
			}
		}
		for name := range names {
			if len(name) > 12 && len(text) < 1<<18 && bytes.Contains(text, []byte(name)) {
				t.Fatalf("%q is left in %.60q", name, text)
			}
		}
	}
}

// tenancies: default is one; that is in catalogues and on nodes, and the scheduler has a name like it.
var tenancies = regexp.MustCompile(`instance-tenancy":("default"|\[[^\]]*\])|instance-tenancy"[^]]{1,60}"default"|instance-tenancy\x12\x07default|default-scheduler`)
