package image

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	digests "github.com/opencontainers/go-digest"
	v1 "github.com/opencontainers/image-spec/specs-go/v1"
)

// The layout leads from the name to the files of each architecture, everything is under its digest, and the
// same binaries give the same archive.
func TestIndexOfTwoArchitectures(t *testing.T) {
	dir := t.TempDir()
	var images []*Image
	for _, arch := range []string{"amd64", "arm64"} {
		program := filepath.Join(dir, arch)
		if err := os.WriteFile(program, []byte("binary for "+arch), 0o600); err != nil {
			t.Fatal(err)
		}
		images = append(images, &Image{Architecture: arch, Labels: map[string]string{"org.opencontainers.image.version": "v1"},
			Files: []File{{In: "/program", Host: program}, {In: "/etc/sbom/program.cdx.json", Data: []byte("{}")}}})
	}
	var first, second bytes.Buffer
	digest, err := WriteIndex(&first, "millwright/program:v1", images)
	again, err2 := WriteIndex(&second, "millwright/program:v1", images)
	if err != nil || err2 != nil || digest != again || !bytes.Equal(first.Bytes(), second.Bytes()) {
		t.Fatalf("%s and %s: %v, %v", digest, again, err, err2)
	}
	parts, _ := entries(t, first.Bytes())
	blob := func(d v1.Descriptor, into any) []byte {
		data := parts["blobs/sha256/"+d.Digest.Encoded()]
		if digests.FromBytes(data) != d.Digest || int64(len(data)) != d.Size {
			t.Fatalf("%+v is not there", d)
		}
		if into != nil {
			if err := json.Unmarshal(data, into); err != nil {
				t.Fatal(err)
			}
		}
		return data
	}
	var names, index v1.Index
	if err := json.Unmarshal(parts["index.json"], &names); err != nil || len(names.Manifests) != 1 || names.Manifests[0].Digest.String() != digest {
		t.Fatalf("%s: %v", parts["index.json"], err)
	}
	if name := names.Manifests[0].Annotations[annotationName]; name != "millwright/program:v1" || !strings.Contains(string(parts["oci-layout"]), "1.0.0") {
		t.Errorf("it is called %q", name)
	}
	blob(names.Manifests[0], &index)
	for i, m := range index.Manifests {
		var manifest v1.Manifest
		var config v1.Image
		blob(m, &manifest)
		blob(manifest.Config, &config)
		arch := images[i].Architecture
		if m.Platform.Architecture != arch || config.Architecture != arch || config.OS != "linux" || config.Config.Labels["org.opencontainers.image.version"] != "v1" ||
			config.RootFS.DiffIDs[0] != manifest.Layers[0].Digest {
			t.Errorf("%s: %+v, %+v", arch, m.Platform, config)
		}
		contents, headers := entries(t, blob(manifest.Layers[0], nil))
		if string(contents["program"]) != "binary for "+arch || string(contents["etc/sbom/program.cdx.json"]) != "{}" || headers["etc/sbom/program.cdx.json"].Mode != 0o644 {
			t.Errorf("%s: %v", arch, headers)
		}
	}
	if len(index.Manifests) != 2 || index.Manifests[0].Digest == index.Manifests[1].Digest {
		t.Errorf("%d architectures", len(index.Manifests))
	}
}
