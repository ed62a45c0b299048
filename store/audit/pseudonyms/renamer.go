package pseudonyms

import (
	"encoding/base64"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"millwright/planner/timezone"
)

// renamer replaces the names in JSON. It collects them first: then it notes what it would replace.
type renamer struct {
	words    vocabulary
	isField  map[string]bool
	learning *learned
	// planned: what is renamed was decided by planners, who will decide it again. Then a word of the
	// vocabulary is not taken for a name, for they say which they mean.
	planned bool
	// pseudonyms of words; nil while they are collected.
	pseudonyms *words
	// computed are the pseudonyms of whole texts that somebody computes again, such as hashes.
	computed map[string]string
	// sentences that planners wrote of renamed inputs, by what they wrote of the others.
	sentences map[string]string
}

// learned is what was found while names were collected.
type learned struct {
	// public are the instance types, zones and values of well-known labels that AWS's catalogues name.
	public map[string]bool
	// types are the instance types: they stay wherever they are.
	types map[string]bool
	// numeric are the label keys whose values are compared as numbers.
	numeric map[string]bool
	// words are what names are made of; whole are the names, and the keys that are not public.
	words, whole, keys map[string]bool
	// fixed are the public keys and domains that stay where others are sorted among them.
	fixed map[string]bool
}

func newRenamer() *renamer {
	r := &renamer{words: newVocabulary(), isField: map[string]bool{}, computed: map[string]string{}, sentences: map[string]string{}, learning: &learned{
		public: map[string]bool{}, types: map[string]bool{}, numeric: map[string]bool{}, words: map[string]bool{}, whole: map[string]bool{}, keys: map[string]bool{},
		fixed: map[string]bool{}}}
	for w := range strings.FieldsSeq(fieldText) {
		r.isField[w] = true
	}
	for _, w := range fixedWords {
		r.learning.fixed[w] = true
	}
	return r
}

func (r *renamer) collecting() bool { return r.pseudonyms == nil }

// json replaces the names in a JSON document.
func (r *renamer) json(data []byte) ([]byte, error) {
	v, err := parse(data)
	if err != nil {
		return nil, err
	}
	if v, err = r.value("", "", v); err != nil {
		return nil, err
	}
	return render(v)
}

// value of a field, below the field parent.
func (r *renamer) value(parent, name string, v value) (value, error) {
	switch x := v.(type) {
	case string:
		return r.text(parent, name, x)
	case []value:
		list := make([]value, len(x))
		for i, e := range x {
			var err error
			if list[i], err = r.value(parent, name, e); err != nil {
				return nil, err
			}
		}
		return list, nil
	case *object:
		return r.object(parent, name, x)
	}
	return v, nil
}

func (r *renamer) object(parent, name string, o *object) (value, error) {
	switch c := classOf(name); {
	case (c == labelMap || name == "requirements") && !o.has("operator") && !o.has("Key"):
		return r.labels(o)
	case name == "sums":
		return o, nil // they are made anew
	case c == amountMap && !o.has("limits") && !o.has("requests"):
		return r.amounts(o)
	}
	if op := o.text("operator"); r.collecting() && (strings.HasPrefix(op, "G") || strings.HasPrefix(op, "L")) {
		r.learning.numeric[o.text("key")] = true
	}
	if r.collecting() && o.has("namespace") && o.has("name") {
		r.stem(o.text("name"))
	}
	key := o.text("key")
	out := &object{fields: make([]field, 0, len(o.fields))}
	for _, f := range o.fields {
		var err error
		g := field{f.name, nil}
		switch {
		case key != "" && (f.name == "values" || f.name == "value"):
			g.value, err = r.labelValue(key, f.value)
		case classOf(name) == countMap:
			g.name = r.publicOr(f.name)
			g.value, err = r.value(name, "status", f.value)
		default:
			if !r.isField[f.name] {
				g.name = r.key(f.name)
			}
			g.value, err = r.value(name, f.name, f.value)
		}
		if err != nil {
			return nil, fmt.Errorf("%s: %w", f.name, err)
		}
		out.fields = append(out.fields, g)
	}
	return out, nil
}

// classOf a field; encoders that have no names of their own begin with a capital.
func classOf(name string) class {
	if c, ok := classes[name]; ok || name == "" {
		return c
	}
	if c, ok := classes[strings.ToLower(name[:1])+name[1:]]; ok {
		return c
	}
	return nameField
}

// labels are a map by label key, of values or of lists of them.
func (r *renamer) labels(o *object) (value, error) {
	out := &object{fields: make([]field, 0, len(o.fields))}
	for _, f := range o.fields {
		v, err := r.labelValue(f.name, f.value)
		if err != nil {
			return nil, err
		}
		out.fields = append(out.fields, field{r.key(f.name), v})
	}
	return out, nil
}

// labelValue is the value of a label or an annotation, or a list of them.
func (r *renamer) labelValue(key string, v value) (value, error) {
	switch x := v.(type) {
	case []value:
		list := make([]value, len(x))
		for i, e := range x {
			var err error
			if list[i], err = r.labelValue(key, e); err != nil {
				return nil, err
			}
		}
		return list, nil
	case string:
		return r.label(key, x), nil
	case nil:
		return nil, nil
	}
	return nil, fmt.Errorf("value of %s is %T", key, v)
}

func (r *renamer) label(key, text string) string {
	switch {
	case recordValues[key]:
		parts := strings.Split(text, "/")
		for i, p := range parts {
			if !integer.MatchString(p) {
				parts[i] = r.name(p)
			}
		}
		return strings.Join(parts, "/")
	case r.learning.numeric[key] && integer.MatchString(text):
		if !r.isPublicKey(key) {
			r.learning.fixed[text] = true
		}
		return text
	case r.isPublicKey(key) && !namedValues[key]:
		return r.publicOr(text)
	}
	return r.name(text)
}

// amounts are a map by resource; resource.Vector is one too.
func (r *renamer) amounts(o *object) (value, error) {
	out := &object{fields: make([]field, 0, len(o.fields))}
	for _, f := range o.fields {
		name := "status" // a quantity
		if f.name == "extended" {
			name = f.name
		}
		v, err := r.value("amounts", name, f.value)
		if err != nil {
			return nil, err
		}
		out.fields = append(out.fields, field{r.key(f.name), v})
	}
	return out, nil
}

// text of a field.
func (r *renamer) text(parent, name, s string) (value, error) {
	if s == "" {
		return s, nil
	}
	switch {
	case name == "name" && parent == "extended":
		return r.key(s), nil
	case name == "name" && (parent == "drivers" || parent == "os" || parent == "instanceTypes" || parent == "types"):
		return r.publicOr(s), nil
	}
	switch {
	case name == "digest" && parent == "position": // it is made anew
		return "1", nil
	case name == "schedule" && schedule.MatchString(s), name == "timeZone" && isZone(s):
		return s, nil
	}
	switch classOf(name) {
	case keyField:
		return r.key(s), nil
	case publicField:
		return r.publicOr(s), nil
	case textField:
		return r.sentence(s), nil
	case aggregateField:
		return r.aggregate(s), nil
	case droppedField:
		return "", nil
	case encodedField:
		data, err := base64.StdEncoding.DecodeString(s)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		if data, err = r.json(data); err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		return base64.StdEncoding.EncodeToString(data), nil
	}
	if moment.MatchString(s) {
		return s, nil
	}
	return r.name(s), nil
}

// isZone reports a time zone by its name.
func isZone(name string) bool {
	_, err := timezone.Load(name)
	return err == nil
}

// aggregate is a kind of things and the name of one: pool/default, pod/team-a/web-0.
func (r *renamer) aggregate(s string) string {
	kind, name, ok := strings.Cut(s, "/")
	if !ok {
		return r.publicOr(s)
	}
	if s == "ledger/checkpoint" || name == "-" {
		return s
	}
	return r.publicOr(kind) + "/" + r.name(name)
}

// name replaces a name, part by part between slashes.
func (r *renamer) name(s string) string {
	if s == "" {
		return s
	}
	if p, ok := r.computed[s]; ok {
		return p
	}
	if r.learning.types[s] {
		return s
	}
	if strings.HasPrefix(s, "aws:///") { // providerid: the zone is public
		if zone, id, ok := strings.Cut(s[len("aws:///"):], "/"); ok {
			return "aws:///" + r.publicOr(zone) + "/" + r.name(id)
		}
	}
	if r.collecting() {
		r.learning.whole[s] = true
		for part := range strings.SplitSeq(s, "/") {
			r.learning.words[part] = true
		}
		return s
	}
	parts := strings.Split(s, "/")
	for i, p := range parts {
		parts[i] = r.word(p)
	}
	return strings.Join(parts, "/")
}

// word between slashes. One that nobody collected is a fault of this package: it must not stay.
func (r *renamer) word(s string) string {
	if p, ok := r.computed[s]; ok {
		return p
	}
	p, ok := r.pseudonyms.of(s)
	if !ok {
		panic(uncollected{s})
	}
	return p
}

// uncollected is a word without a pseudonym.
type uncollected struct{ word string }

// stem notes what the names of a workload's replicas have in common, for it is cut off where they are
// compared (ledger.OwnerKey).
func (r *renamer) stem(name string) {
	if i := strings.LastIndexByte(name, '-'); i > 0 {
		r.learning.words[name[:i]] = true
	}
}

func (r *renamer) isPublicKey(key string) bool {
	if r.words[key] && (strings.Contains(key, "/") || key == "metadata.name" || namedValues[key]) {
		return true
	}
	return false
}

// key of a label, a taint or a resource. Public ones stay, and so do domains that planners treat apart.
func (r *renamer) key(s string) string {
	domain, name, qualified := strings.Cut(s, "/")
	switch {
	case s == "":
		return s
	case r.isPublicKey(s), plainResources[s], strings.HasPrefix(s, "hugepages-"):
		r.learning.fixed[s] = true
		return s
	case !qualified:
		r.noteKey(s)
		return r.name(s)
	case publicDomains[domain]:
		r.learning.fixed[domain] = true
		if r.collecting() {
			r.noteKey(s)
			r.name(name)
			return s
		}
		return domain + "/" + r.name(name)
	}
	r.noteKey(s)
	for _, d := range protectedDomains {
		if sub, ok := strings.CutSuffix(domain, d); ok {
			return r.name(sub) + d + "/" + r.name(name)
		}
	}
	return r.name(s)
}

func (r *renamer) noteKey(s string) {
	if r.collecting() {
		r.learning.keys[s] = true
	}
}

var plainResources = map[string]bool{
	"cpu": true, "memory": true, "pods": true, "storage": true, "ephemeral-storage": true, "ephemeralStorage": true, "extended": true, "count": true,
	"nodes": true,
}

// isPublic reports that a word or a text is nobody's name.
func (r *renamer) isPublic(s string) bool {
	return r.words[s] || r.learning.public[s] || plain.MatchString(s)
}

// publicOr keeps a text that is public, and replaces what is not.
func (r *renamer) publicOr(s string) string {
	if r.isPublic(s) || s == "" {
		return s
	}
	if slices.ContainsFunc(strings.FieldsFunc(s, isSpace), func(w string) bool { return w != s }) {
		return r.sentence(s)
	}
	if group, version, ok := strings.Cut(s, "/"); ok && r.isPublic(group) && r.isPublic(version) { // an apiVersion
		return s
	}
	return r.name(s)
}

func isSpace(c rune) bool { return c == ' ' || c == ',' || c == '*' }

var lettersOnly = regexp.MustCompile(`^\pL+$`)

var token = regexp.MustCompile(`[\pL\pN_][-\pL\pN_./:@+%]*`)

// sentence replaces a text word by word. A word that is a name is one, whatever else it may mean.
func (r *renamer) sentence(s string) string {
	if p, ok := r.sentences[s]; ok {
		return p
	}
	return token.ReplaceAllStringFunc(s, func(t string) string {
		end := strings.TrimRight(t, ".:-/")
		rest := t[len(end):]
		switch {
		case r.planned && r.words[end] && lettersOnly.MatchString(end):
			return t
		case r.learning.keys[end]:
			return r.key(end) + rest
		case r.learning.whole[end]:
			return r.name(end) + rest
		case r.isPublic(end):
			return t
		}
		return r.name(end) + rest
	})
}
