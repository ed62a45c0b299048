package events

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"sync"
)

// catalogPrefix of the blobs that hold catalogues, named by their hash.
const catalogPrefix = "catalog/"

// CatalogBlob is the name of the blob of a catalogue.
func CatalogBlob(hash string) string { return catalogPrefix + hash }

// StoreCatalog puts a catalogue into blobs under the hash of its bytes and returns the message for it. Do
// this before publishing the reference. Putting the same catalogue twice is harmless. The reference keeps c,
// which must not change any more.
func StoreCatalog(ctx context.Context, blobs Blobs, c *Catalog) (*CatalogRef, error) {
	data, err := json.Marshal(c)
	if err != nil {
		return nil, fmt.Errorf("encode catalogue of %s: %w", c.NodeClass, err)
	}
	sum := sha256.Sum256(data)
	ref := &CatalogRef{NodeClass: c.NodeClass, Hash: hex.EncodeToString(sum[:]), Catalog: c}
	if err := blobs.Put(ctx, CatalogBlob(ref.Hash), data); err != nil {
		return nil, fmt.Errorf("put catalogue of %s: %w", c.NodeClass, err)
	}
	return ref, nil
}

// ResolveCatalog sets the Catalog of a CatalogRef from its blob; it does nothing for other observations. The
// catalogue is shared by all who resolve the same hash: never change it. ErrNotFound: the blob is gone, or
// its bytes do not have the hash; retrying is useless.
func ResolveCatalog(ctx context.Context, blobs Blobs, o *Observation) error {
	ref, ok := o.Object.(*CatalogRef)
	if !ok || ref.Catalog != nil {
		return nil
	}
	if ref.Catalog, ok = catalogs.get(ref.Hash); ok {
		return nil
	}
	data, err := blobs.Get(ctx, CatalogBlob(ref.Hash))
	if err != nil {
		return fmt.Errorf("get catalogue of %s: %w", ref.NodeClass, err)
	}
	if ref.Catalog, err = parseCatalog(data, ref.Hash); err != nil {
		return fmt.Errorf("read catalogue of %s: %w", ref.NodeClass, err)
	}
	catalogs.put(ref.Hash, ref.Catalog)
	return nil
}

func parseCatalog(data []byte, hash string) (*Catalog, error) {
	if sum := sha256.Sum256(data); hex.EncodeToString(sum[:]) != hash {
		return nil, fmt.Errorf("blob %s is damaged: %w", hash, ErrNotFound)
	}
	c := &Catalog{}
	if err := json.Unmarshal(data, c); err != nil {
		return nil, fmt.Errorf("blob %s: %w: %w", hash, ErrNotFound, err)
	}
	return c, nil
}

// catalogs holds parsed catalogues by the hash of their content, so that it may be shared by everything in
// the process: an entry can never be wrong, only absent.
var catalogs = catalogCache{byHash: map[string]*Catalog{}}

const catalogsMax = 32

type catalogCache struct {
	mu     sync.Mutex
	byHash map[string]*Catalog
	order  []string // oldest first
}

func (c *catalogCache) get(hash string) (*Catalog, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	found, ok := c.byHash[hash]
	return found, ok
}

func (c *catalogCache) put(hash string, value *Catalog) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if _, ok := c.byHash[hash]; ok {
		return
	}
	if len(c.order) == catalogsMax {
		delete(c.byHash, c.order[0])
		c.order = c.order[1:]
	}
	c.byHash[hash] = value
	c.order = append(c.order, hash)
}
