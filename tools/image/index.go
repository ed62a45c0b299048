package image

import (
	"archive/tar"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"slices"

	digests "github.com/opencontainers/go-digest"
	"github.com/opencontainers/image-spec/specs-go"
	v1 "github.com/opencontainers/image-spec/specs-go/v1"
)

// annotationName by which containerd names an image that it imports; the specification's own has the tag
// alone.
const annotationName = "io.containerd.image.name"

// WriteIndex writes images of several architectures under one name as an OCI image layout in a tar archive,
// and returns the digest by which the name can be pinned. `ctr images import --all-platforms`, `skopeo copy
// oci-archive:…` and `crane push` read it. The same binaries give the same bytes.
func WriteIndex(w io.Writer, name string, images []*Image) (digest string, err error) {
	blobs := map[digests.Digest][]byte{}
	add := func(mediaType string, data []byte) v1.Descriptor {
		d := digests.FromBytes(data)
		blobs[d] = data
		return v1.Descriptor{MediaType: mediaType, Digest: d, Size: int64(len(data))}
	}
	addJSON := func(mediaType string, value any) (v1.Descriptor, error) {
		data, err := json.Marshal(value)
		return add(mediaType, data), err
	}
	index := v1.Index{Versioned: specs.Versioned{SchemaVersion: 2}, MediaType: v1.MediaTypeImageIndex}
	for _, i := range images {
		layer, err := i.layer()
		if err != nil {
			return "", fmt.Errorf("make image %s for %s: %w", name, i.Architecture, err)
		}
		config, err := i.config(layer)
		if err != nil {
			return "", fmt.Errorf("make image %s for %s: %w", name, i.Architecture, err)
		}
		manifest, err := addJSON(v1.MediaTypeImageManifest, v1.Manifest{Versioned: specs.Versioned{SchemaVersion: 2}, MediaType: v1.MediaTypeImageManifest,
			Config: add(v1.MediaTypeImageConfig, config), Layers: []v1.Descriptor{add(v1.MediaTypeImageLayer, layer)}})
		if err != nil {
			return "", fmt.Errorf("make image %s for %s: %w", name, i.Architecture, err)
		}
		manifest.Platform = &v1.Platform{OS: "linux", Architecture: i.Architecture}
		index.Manifests = append(index.Manifests, manifest)
	}
	top, err := addJSON(v1.MediaTypeImageIndex, index)
	if err != nil {
		return "", fmt.Errorf("make image %s: %w", name, err)
	}
	top.Annotations = map[string]string{annotationName: name, v1.AnnotationRefName: name}
	names, err := json.Marshal(v1.Index{Versioned: specs.Versioned{SchemaVersion: 2}, MediaType: v1.MediaTypeImageIndex, Manifests: []v1.Descriptor{top}})
	if err != nil {
		return "", fmt.Errorf("make image %s: %w", name, err)
	}
	layout, err := json.Marshal(v1.ImageLayout{Version: v1.ImageLayoutVersion})
	if err != nil {
		return "", fmt.Errorf("make image %s: %w", name, err)
	}
	files := map[string][]byte{v1.ImageLayoutFile: layout, v1.ImageIndexFile: names}
	for d, data := range blobs {
		files[v1.ImageBlobsDir+"/"+d.Algorithm().String()+"/"+d.Encoded()] = data
	}
	out := tar.NewWriter(w)
	for _, file := range slices.Sorted(maps.Keys(files)) {
		if err := writeFile(out, file, 0o644, 0, files[file]); err != nil {
			return "", fmt.Errorf("write image %s: %w", name, err)
		}
	}
	return top.Digest.String(), out.Close()
}
