package pseudonyms

import (
	"encoding/base64"
	"fmt"
	"regexp"
	"strings"

	"github.com/klauspost/compress/zstd"

	"millwright/planner/ledger"
	"millwright/store/audit/recording"
)

// checkNothingLeft looks for the names in what is to be written, in whatever place: it shares nothing with
// what replaced them but the list of names. Short ones are part of too much else.
func (b *renaming) checkNothingLeft(out *recording.Contents) error {
	for _, r := range out.Records {
		about := fmt.Sprintf("record %d (%s)", r.Seq, ledger.Kind(r.Kind))
		texts := [][]byte{r.Payload, r.Explanation, []byte(r.Service + " " + strings.Join(r.Subjects, " ") + " " + strings.Join(r.Advances, " "))}
		if err := b.lookFor(about, append(texts, unpacked(r.Payload)...)); err != nil {
			return err
		}
	}
	for _, m := range out.Messages {
		if err := b.lookFor(fmt.Sprintf("message %d", m.Sequence), [][]byte{m.Data}); err != nil {
			return err
		}
	}
	for _, blobs := range []map[string][]byte{out.LogBlobs, out.StreamBlobs} {
		for name, data := range blobs {
			if err := b.lookFor("a blob", [][]byte{[]byte(name), plainOf(data)}); err != nil {
				return err
			}
		}
	}
	return nil
}

// packed are documents in base64.
var packed = regexp.MustCompile(`"[A-Za-z0-9+/]{24,}={0,2}"`)

func unpacked(payload []byte) (list [][]byte) {
	for _, text := range packed.FindAll(payload, -1) {
		if data, err := base64.StdEncoding.DecodeString(string(text[1 : len(text)-1])); err == nil {
			list = append(list, data)
		}
	}
	return list
}

// plainOf is a blob without its compression.
func plainOf(data []byte) []byte {
	z, err := zstd.NewReader(nil, zstd.WithDecoderConcurrency(1))
	if err != nil {
		return data
	}
	defer z.Close()
	if plain, err := z.DecodeAll(data, nil); err == nil {
		return plain
	}
	return data
}

// lookFor names. Where texts have their lengths before them, a length may look like the first letter.
func (b *renaming) lookFor(about string, texts [][]byte) error {
	for _, text := range texts {
		for _, t := range token.FindAll(text, -1) {
			for _, w := range []string{string(t), string(t[1:])} {
				if w = strings.TrimRight(w, ".:-/@%+"); b.isLeft(w) {
					return fmt.Errorf("%s would hold a name of %d bytes: %w", about, len(w), ErrUnknown)
				}
			}
		}
	}
	return nil
}

func (b *renaming) isLeft(w string) bool {
	return len(w) > 3 && b.learning.whole[w] && !b.isPublic(w) && !b.learning.types[w] && !b.learning.fixed[w] && b.pseudonyms.pseudonym[w] != w
}
