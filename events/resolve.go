package events

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"slices"

	"github.com/klauspost/compress/zstd"
)

// catalogPrefix of the blobs that hold catalogues, named by their hash.
const catalogPrefix = "catalog/"

// CatalogBlob is the name of the blob of a catalogue.
func CatalogBlob(hash string) string { return catalogPrefix + hash }

// StoreCatalog stores a catalogue as a blob under the hash of its bytes and returns the message for it, which
// does not contain it. Call this before publishing the reference. Storing the same catalogue twice is
// harmless.
func StoreCatalog(ctx context.Context, blobs Blobs, c *Catalog) (*CatalogRef, error) {
	data, err := json.Marshal(c)
	if err != nil {
		return nil, fmt.Errorf("encode catalogue of %s: %w", c.NodeClass, err)
	}
	sum := sha256.Sum256(data)
	ref := &CatalogRef{NodeClass: c.NodeClass, Hash: hex.EncodeToString(sum[:])}
	if err := blobs.Put(ctx, CatalogBlob(ref.Hash), data); err != nil {
		return nil, fmt.Errorf("put catalogue of %s: %w", c.NodeClass, err)
	}
	if ref.packed, err = pack(data); err != nil {
		return nil, fmt.Errorf("pack catalogue of %s: %w", c.NodeClass, err)
	}
	return ref, nil
}

// StoreCatalogAgain stores the blob of a reference from StoreCatalog again, if it is lost or damaged; it does
// nothing for other references.
func StoreCatalogAgain(ctx context.Context, blobs Blobs, ref *CatalogRef) error {
	if ref.packed == nil {
		return nil
	}
	data, err := unpack(ref.packed)
	if err != nil {
		return fmt.Errorf("unpack catalogue of %s: %w", ref.NodeClass, err)
	}
	if err := blobs.Put(ctx, CatalogBlob(ref.Hash), data); err != nil {
		return fmt.Errorf("put catalogue of %s again: %w", ref.NodeClass, err)
	}
	return nil
}

func pack(data []byte) ([]byte, error) {
	w, err := zstd.NewWriter(nil, zstd.WithEncoderConcurrency(1), zstd.WithEncoderLevel(zstd.SpeedFastest))
	if err != nil {
		return nil, err
	}
	return slices.Clip(w.EncodeAll(data, nil)), nil
}

func unpack(packed []byte) ([]byte, error) {
	r, err := zstd.NewReader(nil, zstd.WithDecoderConcurrency(1))
	if err != nil {
		return nil, err
	}
	defer r.Close()
	return r.DecodeAll(packed, nil)
}

// ResolveCatalog sets the Catalog of a CatalogRef from its blob; it does nothing for other observations, nor
// for references that held, if it is not nil, reports as known. Nothing is kept: the catalogue is the
// caller's. ErrNotFound: the blob is gone; ErrDamaged: its bytes do not have the hash. Retrying is useless.
func ResolveCatalog(ctx context.Context, blobs Blobs, o *Observation, held func(*CatalogRef) bool) error {
	ref, ok := o.Object.(*CatalogRef)
	if !ok || ref.Catalog != nil || held != nil && held(ref) {
		return nil
	}
	data, err := blobs.Get(ctx, CatalogBlob(ref.Hash))
	if err != nil {
		return fmt.Errorf("get catalogue of %s: %w", ref.NodeClass, err)
	}
	if ref.Catalog, err = parseCatalog(data, ref.Hash); err != nil {
		return fmt.Errorf("read catalogue of %s: %w", ref.NodeClass, err)
	}
	return nil
}

func parseCatalog(data []byte, hash string) (*Catalog, error) {
	if sum := sha256.Sum256(data); hex.EncodeToString(sum[:]) != hash {
		return nil, fmt.Errorf("blob %s has another hash: %w", hash, ErrDamaged)
	}
	c := &Catalog{}
	if err := json.Unmarshal(data, c); err != nil {
		return nil, fmt.Errorf("blob %s: %w: %w", hash, ErrDamaged, err)
	}
	return c, nil
}
