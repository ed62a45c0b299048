package recording

import (
	"archive/zip"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	"millwright/events"
	"millwright/store"
)

// Contents are all that is in a bundle.
type Contents struct {
	Manifest Manifest
	Records  []store.Record
	Messages []events.Message
	// LogBlobs and StreamBlobs by name: checkpoints and catalogues.
	LogBlobs, StreamBlobs map[string][]byte
}

// Contents reads a bundle as a whole.
func (b *Bundle) Contents() (*Contents, error) {
	c := &Contents{Manifest: b.Manifest, Records: b.records, Messages: b.messages, LogBlobs: map[string][]byte{}, StreamBlobs: map[string][]byte{}}
	for _, entry := range b.entries() {
		into, name := c.LogBlobs, ""
		switch log, isLog := strings.CutPrefix(entry, prefixLog); {
		case isLog:
			name = log
		case strings.HasPrefix(entry, prefixStream):
			into, name = c.StreamBlobs, strings.TrimPrefix(entry, prefixStream)
		default:
			continue
		}
		data, err := b.entry(entry)
		if err != nil {
			return nil, err
		}
		into[name] = data
	}
	return c, nil
}

// entries of the bundle by name.
func (b *Bundle) entries() (list []string) {
	if b.file == nil {
		return slices.Sorted(maps.Keys(b.blobs))
	}
	for _, f := range b.file.File {
		list = append(list, f.Name)
	}
	return list
}

// Bundle that can be replayed as if it had been written and opened.
func (c *Contents) Bundle() *Bundle {
	b := &Bundle{Manifest: c.Manifest, records: c.Records, messages: c.Messages, blobs: map[string][]byte{}}
	for name, data := range c.LogBlobs {
		b.blobs[prefixLog+name] = data
	}
	for name, data := range c.StreamBlobs {
		b.blobs[prefixStream+name] = data
	}
	return b
}

// Write writes a bundle with these contents, whose names are pseudonyms.
func (c *Contents) Write(out io.Writer) error {
	b := &bundler{zip: zip.NewWriter(out), manifest: c.Manifest}
	b.manifest.Format = pseudonymsFormat
	whole := c.Bundle()
	for _, name := range whole.entries() {
		if err := b.blob(name, whole.blobs[name]); err != nil {
			return fmt.Errorf("write bundle: %w", err)
		}
	}
	err := errors.Join(b.coded(entryRecords, func(encode func(any) error) error { return each(c.Records, encode) }),
		b.coded(entryMessages, func(encode func(any) error) error { return each(c.Messages, encode) }), b.close())
	if err != nil {
		return fmt.Errorf("write bundle: %w", err)
	}
	return nil
}

func each[T any](list []T, encode func(any) error) error {
	for i := range list {
		if err := encode(&list[i]); err != nil {
			return err
		}
	}
	return nil
}
