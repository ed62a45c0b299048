package image

import (
	"archive/tar"
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"os"
	"path/filepath"
	"testing"
)

// entries of a tar archive by name.
func entries(t *testing.T, data []byte) (map[string][]byte, map[string]*tar.Header) {
	t.Helper()
	contents, headers := map[string][]byte{}, map[string]*tar.Header{}
	for r := tar.NewReader(bytes.NewReader(data)); ; {
		h, err := r.Next()
		if errors.Is(err, io.EOF) {
			return contents, headers
		}
		if err != nil {
			t.Fatal(err)
		}
		if contents[h.Name], err = io.ReadAll(r); err != nil {
			t.Fatal(err)
		}
		headers[h.Name] = h
	}
}

func TestImage(t *testing.T) {
	program := filepath.Join(t.TempDir(), "program")
	if err := os.WriteFile(program, []byte("binary"), 0o600); err != nil {
		t.Fatal(err)
	}
	i := Image{Name: "millwright/program:dev", Architecture: "arm64", Files: []File{{In: "/program", Host: program}}}
	var first, second bytes.Buffer
	if err := errors.Join(i.Write(&first), i.Write(&second)); err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(first.Bytes(), second.Bytes()) {
		t.Error("the same binary gives other bytes")
	}
	parts, _ := entries(t, first.Bytes())
	var manifest []struct {
		Config           string
		RepoTags, Layers []string
	}
	if err := json.Unmarshal(parts["manifest.json"], &manifest); err != nil || len(manifest) != 1 || manifest[0].RepoTags[0] != i.Name {
		t.Fatalf("manifest %s: %v", parts["manifest.json"], err)
	}
	var config struct {
		Architecture string
		Config       struct {
			User       string
			Entrypoint []string
		}
		RootFS struct {
			DiffIDs []string `json:"diff_ids"`
		}
	}
	layer := parts[manifest[0].Layers[0]]
	if err := json.Unmarshal(parts[manifest[0].Config], &config); err != nil {
		t.Fatal(err)
	}
	if config.Architecture != "arm64" || config.Config.User != "65532:65532" || config.Config.Entrypoint[0] != "/program" || config.RootFS.DiffIDs[0] != "sha256:"+digest(layer) {
		t.Errorf("configuration: %+v", config)
	}
	contents, headers := entries(t, layer)
	if h := headers["program"]; string(contents["program"]) != "binary" || h.Mode != 0o755 || h.Uid != 0 {
		t.Errorf("the program: %q, %+v", contents["program"], h)
	}
	if h := headers["data/"]; h.Uid != user || h.Mode != 0o700 {
		t.Errorf("the directory of data: %+v", h)
	}
}
