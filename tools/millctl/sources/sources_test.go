package sources

import (
	"encoding/binary"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"unicode/utf16"

	"millwright/store/audit/plan"
)

func TestFilesOfAPlan(t *testing.T) {
	dir := t.TempDir()
	for name, text := range map[string]string{"sub/a.yaml": "1", "b.json": "2", "catalog.json": "3", "notes.txt": "4", "c.YML": "5"} {
		path := filepath.Join(dir, name)
		if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, []byte(text), 0o644)); err != nil {
			t.Fatal(err)
		}
	}
	list, err := List([]string{"-", dir}, filepath.Join(dir, "catalog.json"), strings.NewReader("0"))
	if err != nil {
		t.Fatal(err)
	}
	var read []string
	for _, s := range list {
		r, err := s.Open()
		if err != nil {
			t.Fatal(err)
		}
		b, err := io.ReadAll(r)
		if err := errors.Join(err, r.Close()); err != nil {
			t.Fatal(err)
		}
		read = append(read, string(b))
	}
	if got := strings.Join(read, " "); got != "0 2 5 1" {
		t.Errorf("read %s", got)
	}
	for about, paths := range map[string][]string{"nowhere": {"nowhere.yaml"}, "no file in the directory ends in": {t.TempDir()}} {
		var input *plan.InputError
		if _, err := List(paths, "", nil); !errors.As(err, &input) || !strings.Contains(err.Error(), about) {
			t.Errorf("%s: %v", about, err)
		}
	}
}

// PowerShell writes what kubectl prints as UTF-16.
func TestUTF16IsRead(t *testing.T) {
	text := "a: \U0001F600\r\n---\r\nb: é\r\n"
	units := utf16.Encode([]rune("\uFEFF" + text))
	var little, big []byte
	for _, u := range units {
		little, big = binary.LittleEndian.AppendUint16(little, u), binary.BigEndian.AppendUint16(big, u)
	}
	for written, want := range map[string]string{string(little): text, string(big): text, text: text, "": "", "x": "x", "\xEF\xBB\xBFx": "\xEF\xBB\xBFx"} {
		path := filepath.Join(t.TempDir(), "f.yaml")
		if err := os.WriteFile(path, []byte(written), 0o600); err != nil {
			t.Fatal(err)
		}
		list, err := List([]string{path, "-"}, "", strings.NewReader(written))
		if err != nil {
			t.Fatal(err)
		}
		for _, s := range list {
			r, err := s.Open()
			if err != nil {
				t.Fatal(err)
			}
			got, err := io.ReadAll(r)
			if err = errors.Join(err, r.Close()); err != nil || string(got) != want {
				t.Errorf("%q: %q, %v", written, got, err)
			}
		}
	}
}
