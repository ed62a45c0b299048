// Command citations finds what code and documents cite of the specification (`DESIGN §4`, `scheduling §7.5`),
// and checks that each cited section has a heading. It is run at the top of the repository, prints what is
// wrong, and exits 1 if anything is; its tests check the same and more.
package main

import (
	"fmt"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

// Pages by the name by which they are cited, below the top of the repository.
var Pages = map[string]string{
	"DESIGN": "docs/design/README.md", "FORMAT": "store/FORMAT.md",
	"api": "docs/reference/api.md", "scheduling": "docs/reference/scheduling.md", "disruption": "docs/reference/disruption.md",
	"lifecycle": "docs/reference/lifecycle.md", "ec2": "docs/reference/ec2.md", "userdata": "docs/reference/userdata.md",
	"instance-types": "docs/reference/instance-types.md", "operations": "docs/reference/operations.md",
}

// Citation of a section.
type Citation struct {
	// File and Line are where it stands.
	File string
	Line int
	// Page is one of Pages; "" if the text does not say which page it means.
	Page    string
	Section string
}

func (c Citation) String() string {
	return fmt.Sprintf("%s:%d: %s §%s", c.File, c.Line, c.Page, c.Section)
}

// section matches what is cited: the word before it, whether it is a link, its number, and the file that a
// link leads to.
var section = regexp.MustCompile(`(\[)?(?:([A-Za-z0-9_./-]+)[\s` + "`" + `*]+)?(\[)?§\s?(\d+(?:\.\d+)*)(?:\]\(([^)#]*)#)?`)

// connector is what may come between sections of one page: "§2, §6 and §9".
var connector = regexp.MustCompile(`^[\s,;()–-]*(?:and|or|to)?[\s]*$`)

// In returns the citations of a file, which is named from the top of the repository. A section without a page
// is the page's own in a page of the specification; elsewhere it is that of the section before it, if only a
// connector stands between.
func In(file, text string) []Citation {
	flat, lines := flatten(text)
	own := pageOf(file)
	var out []Citation
	last, end := "", 0
	for _, m := range section.FindAllStringSubmatchIndex(flat, -1) {
		word, number, target := group(flat, m, 2), group(flat, m, 4), group(flat, m, 5)
		page := pageOf(word)
		switch {
		case target != "":
			page = pageOf(path.Join(path.Dir(file), target))
		case page != "":
		case own != "":
			page = own
		case last != "" && connector.MatchString(between(flat[end:m[8]-len("§")], word)):
			page = last
		}
		out = append(out, Citation{File: file, Line: lines[m[8]], Page: page, Section: number})
		last, end = page, m[1]
	}
	return out
}

// between is the text between two citations; a word that names no page belongs to it only if it is not a
// connector.
func between(text, word string) string {
	if word == "and" || word == "or" || word == "to" {
		return strings.TrimSuffix(strings.TrimRight(text, " "), word)
	}
	return strings.TrimRight(text, "§ ")
}

func group(text string, m []int, i int) string {
	if m[2*i] < 0 {
		return ""
	}
	return text[m[2*i]:m[2*i+1]]
}

// pageOf is the name of a page that a word or a file means; "" if it means none.
func pageOf(word string) string {
	if _, ok := Pages[word]; ok {
		return word
	}
	for name, file := range Pages {
		if word == file || strings.HasPrefix(word, "reference/") && strings.HasSuffix(file, "/"+word) {
			return name
		}
	}
	return ""
}

// flatten joins the lines of a text, without the marks of comments, so that a citation may be wrapped. lines
// has the line of each byte.
func flatten(text string) (flat string, lines []int) {
	var b strings.Builder
	for i, line := range strings.Split(text, "\n") {
		line = strings.TrimPrefix(strings.TrimSpace(line), "//")
		b.WriteString(strings.TrimSpace(line) + " ")
		for len(lines) < b.Len() {
			lines = append(lines, i+1)
		}
	}
	return b.String(), lines
}

var heading = regexp.MustCompile(`(?m)^#+ (\d+(?:\.\d+)*)\.? `)

// Headings are the numbers of the sections of each page, read below top.
func Headings(top string) (map[string][]string, error) {
	out := map[string][]string{}
	for name, file := range Pages {
		text, err := os.ReadFile(filepath.Join(top, file))
		if err != nil {
			return nil, fmt.Errorf("read page %s: %w", name, err)
		}
		for _, m := range heading.FindAllStringSubmatch(string(text), -1) {
			if slices.Contains(out[name], m[1]) {
				return nil, fmt.Errorf("page %s has two headings %s", name, m[1])
			}
			out[name] = append(out[name], m[1])
		}
	}
	return out, nil
}
