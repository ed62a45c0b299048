// Package image writes container images of static binaries, FROM scratch, without a container engine: the
// archive can be loaded by `docker load` and by `ctr images import`. The same binaries give the same bytes.
package image

import (
	"archive/tar"
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path"
	"time"
)

// Image to be written.
type Image struct {
	// Name with its tag, such as millwright/etcd:dev.
	Name string
	// Architecture as Go spells it.
	Architecture string
	// Files of the host by their path in the image, in the order in which they are written; the first is the
	// entry point.
	Files []File
	// Labels of the image; nil: none.
	Labels map[string]string
}

// File of an image: one of the host, or with Host "" the data.
type File struct {
	In, Host string
	Data     []byte
}

// user that the process runs as, who owns nothing but the working directories.
const user = 65532

// Write the archive.
func (i *Image) Write(w io.Writer) error {
	layer, err := i.layer()
	if err != nil {
		return fmt.Errorf("make image %s: %w", i.Name, err)
	}
	config, err := i.config(layer)
	if err != nil {
		return fmt.Errorf("make image %s: %w", i.Name, err)
	}
	name, layerName := digest(config)+".json", digest(layer)+".tar"
	manifest, err := json.Marshal([]map[string]any{{"Config": name, "RepoTags": []string{i.Name}, "Layers": []string{layerName}}})
	if err != nil {
		return fmt.Errorf("make image %s: %w", i.Name, err)
	}
	out := tar.NewWriter(w)
	for _, part := range []struct {
		name string
		data []byte
	}{{"manifest.json", manifest}, {name, config}, {layerName, layer}} {
		if err := writeFile(out, part.name, 0o644, 0, part.data); err != nil {
			return fmt.Errorf("write image %s: %w", i.Name, err)
		}
	}
	return out.Close()
}

// config of the image, with its one layer.
func (i *Image) config(layer []byte) ([]byte, error) {
	process := map[string]any{"User": fmt.Sprintf("%d:%d", user, user), "Entrypoint": []string{i.Files[0].In}, "Env": []string{"HOME=/tmp", "PATH=/"}}
	if len(i.Labels) > 0 {
		process["Labels"] = i.Labels
	}
	return json.Marshal(map[string]any{
		"architecture": i.Architecture, "os": "linux", "created": time.Unix(0, 0).UTC(), "config": process,
		"rootfs": map[string]any{"type": "layers", "diff_ids": []string{"sha256:" + digest(layer)}},
	})
}

// layer is the image's file system: the files, which belong to root, and directories that the user may write.
func (i *Image) layer() ([]byte, error) {
	var out bytes.Buffer
	w := tar.NewWriter(&out)
	for _, d := range []struct {
		name  string
		mode  int64
		owner int
	}{{"tmp/", 0o1777, 0}, {"data/", 0o700, user}, {"kube/", 0o755, user}, {"etc/", 0o755, 0}, {"etc/ssl/", 0o755, 0}, {"etc/ssl/certs/", 0o755, 0}, {"etc/sbom/", 0o755, 0}} {
		if err := w.WriteHeader(&tar.Header{Typeflag: tar.TypeDir, Name: d.name, Mode: d.mode, Uid: d.owner, Gid: d.owner}); err != nil {
			return nil, err
		}
	}
	for _, f := range i.Files {
		data := f.Data
		if f.Host != "" {
			var err error
			if data, err = os.ReadFile(f.Host); err != nil {
				return nil, err
			}
		}
		mode := int64(0o755)
		if path.Dir(f.In) != "/" {
			mode = 0o644
		}
		if err := writeFile(w, path.Clean(f.In)[1:], mode, 0, data); err != nil {
			return nil, err
		}
	}
	if err := w.Close(); err != nil {
		return nil, err
	}
	return out.Bytes(), nil
}

func writeFile(w *tar.Writer, name string, mode int64, owner int, data []byte) error {
	if err := w.WriteHeader(&tar.Header{Typeflag: tar.TypeReg, Name: name, Mode: mode, Uid: owner, Gid: owner, Size: int64(len(data))}); err != nil {
		return err
	}
	_, err := w.Write(data)
	return err
}

func digest(data []byte) string {
	sum := sha256.Sum256(data)
	return hex.EncodeToString(sum[:])
}
