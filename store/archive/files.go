package archive

import (
	"context"
	"io"
)

// Files keeps the files of one archive by their names. It is the only thing in which a directory and a
// bucket differ: what a segment is, how segments are chained, and when records may leave the live log is
// the same for both. Directory and services/bucket implement it.
type Files interface {
	// Location says where the files are.
	Location() string
	// List returns the files in any order, without those in folders; none if nothing was ever made.
	List(ctx context.Context) ([]File, error)
	// Open reads a file as it is kept, never from a cache. fs.ErrNotExist: there is none.
	Open(ctx context.Context, name string) (io.ReadCloser, error)
	// Scratch returns a local directory for files that are being written.
	Scratch() (string, error)
	// Publish moves a local file, made durable, to a name that no file has: it is there whole or not at all.
	// fs.ErrExist: a file has that name, and stays as it is. After any other error either may be true.
	Publish(ctx context.Context, path, name string) error
	// Swap puts data in place of a small file that holds old; nil: if there is no such file. fs.ErrExist: it
	// holds something else.
	Swap(ctx context.Context, name string, old, data []byte) error
	// Remove deletes a file, if there is one.
	Remove(ctx context.Context, name string) error
	// Move moves a file into a folder. fs.ErrExist: there is one of that name.
	Move(ctx context.Context, name, folder string) error
	// Lock keeps other writers away until unlock. Not exclusive: it cannot, and writers settle by claims
	// where segments end.
	Lock(ctx context.Context) (unlock func(), exclusive bool, err error)
}

// File is an entry of a list.
type File struct {
	Name  string
	Bytes int64
	// Version differs between files that have had the same name; "" where nothing is cached.
	Version string
}
