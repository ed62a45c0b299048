package plan

import (
	"bytes"
	"slices"
	"strconv"
)

// plainYAML turns YAML as kubectl and people write it into JSON, some ten times as fast as a whole YAML parser.
// It takes block mappings and sequences of one-line scalars, and flow collections on one line. At anything
// else (anchors, tags, block scalars, escapes, comments after values, values that YAML 1.1 reads in a way of its own) ok is
// false, and the whole parser must do it. What it takes, both read alike.
type plainYAML struct {
	raw []byte
	pos int
	out []byte
	// The current line, without indentation; more is false after the last.
	indent int
	text   []byte
	more   bool
	// keys of the mappings being read.
	keys  [][]byte
	depth int
}

const (
	depthMax = 40
	keysMax  = 64
)

// convert appends the JSON to out.
func convertYAML(raw, out []byte) (json []byte, ok bool) {
	y := &plainYAML{raw: raw, out: out}
	if !y.next() || !y.more || !y.block() || y.more {
		return nil, false
	}
	return y.out, true
}

// next moves to the next line with content; false if the line has what is not taken here.
func (y *plainYAML) next() bool {
	for y.pos < len(y.raw) {
		line := y.raw[y.pos:]
		if end := bytes.IndexByte(line, '\n'); end >= 0 {
			line = line[:end]
		}
		y.pos += len(line) + 1
		y.indent = 0
		for y.indent < len(line) && line[y.indent] == ' ' {
			y.indent++
		}
		y.text = bytes.TrimRight(line[y.indent:], " ")
		if len(y.text) == 0 || y.text[0] == '#' {
			continue
		}
		for _, c := range y.text {
			if c < ' ' || c > '~' {
				return false
			}
		}
		y.more = true
		return true
	}
	y.more = false
	return true
}

func isItem(text []byte) bool { return text[0] == '-' && (len(text) == 1 || text[1] == ' ') }

// block reads the collection that begins at the current line.
func (y *plainYAML) block() bool {
	if y.depth++; y.depth > depthMax {
		return false
	}
	defer func() { y.depth-- }()
	if isItem(y.text) {
		return y.sequence(y.indent)
	}
	return y.mapping(y.indent)
}

func (y *plainYAML) mapping(indent int) bool {
	first := len(y.keys)
	defer func() { y.keys = y.keys[:first] }()
	y.out = append(y.out, '{')
	for y.more && y.indent == indent && !isItem(y.text) {
		end := keyEnd(y.text)
		if end < 0 || !y.key(y.text[:end], first) {
			return false
		}
		if !y.after(bytes.TrimLeft(y.text[end+1:], " "), indent) {
			return false
		}
		y.out = append(y.out, ',')
	}
	y.close('}')
	return !y.more || y.indent <= indent
}

// after reads the value of a key: the rest of its line, or the lines below.
func (y *plainYAML) after(rest []byte, indent int) bool {
	if len(rest) > 0 {
		return y.scalarOrFlow(rest) && y.next()
	}
	if !y.next() {
		return false
	}
	if y.more && (y.indent > indent || y.indent == indent && isItem(y.text)) {
		return y.block()
	}
	y.out = append(y.out, "null"...)
	return true
}

func (y *plainYAML) sequence(indent int) bool {
	y.out = append(y.out, '[')
	for y.more && y.indent == indent && isItem(y.text) {
		if !y.item(indent) {
			return false
		}
		y.out = append(y.out, ',')
	}
	y.close(']')
	return !y.more || y.indent <= indent
}

func (y *plainYAML) item(indent int) bool {
	rest := bytes.TrimLeft(y.text[1:], " ")
	switch {
	case len(rest) == 0:
		if !y.next() {
			return false
		}
		if y.more && y.indent > indent {
			return y.block()
		}
		y.out = append(y.out, "null"...)
		return true
	case keyEnd(rest) >= 0, isItem(rest):
		y.indent += len(y.text) - len(rest)
		y.text = rest
		return y.block()
	}
	return y.scalarOrFlow(rest) && y.next()
}

// close ends a collection in place of the comma after its last member.
func (y *plainYAML) close(end byte) {
	if last := len(y.out) - 1; y.out[last] == ',' {
		y.out[last] = end
		return
	}
	y.out = append(y.out, end)
}

// key writes a key; one that the mapping has already is for the whole parser.
func (y *plainYAML) key(key []byte, first int) bool {
	if special[string(key)] || len(y.keys)-first > keysMax {
		return false
	}
	for _, k := range y.keys[first:] {
		if bytes.Equal(k, key) {
			return false
		}
	}
	y.keys = append(y.keys, key)
	y.quote(key)
	y.out = append(y.out, ':')
	return true
}

// keyEnd returns where the colon after a plain key stands; -1 if the text does not begin with one.
func keyEnd(text []byte) int {
	for i, c := range text {
		switch {
		case c == ':':
			if i == 0 || i+1 < len(text) && text[i+1] != ' ' {
				return -1
			}
			return i
		case !wordChar[c] || i == 0 && !letter(c):
			return -1
		}
	}
	return -1
}

func letter(c byte) bool { return c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' }
func digit(c byte) bool  { return c >= '0' && c <= '9' }

// wordChar are those of keys and of words within flow collections; plainChar those of plain scalars.
var wordChar, plainChar = chars("-._/"), chars("-._/+:@%=,;()~^$* ")

func chars(more string) (set [256]bool) {
	for c := range 256 {
		set[c] = letter(byte(c)) || digit(byte(c)) || bytes.IndexByte([]byte(more), byte(c)) >= 0
	}
	return set
}

// special words are not strings in YAML 1.1.
var special = map[string]bool{}

func init() {
	for _, w := range []string{"null", "Null", "NULL", "true", "True", "TRUE", "false", "False", "FALSE", "y", "Y", "yes", "Yes", "YES",
		"n", "N", "no", "No", "NO", "on", "On", "ON", "off", "Off", "OFF"} {
		special[w] = true
	}
}

func (y *plainYAML) scalarOrFlow(text []byte) bool {
	switch c := text[0]; c {
	case '{', '[':
		rest, ok := y.flow(text)
		return ok && len(rest) == 0
	case '"', '\'':
		rest, ok := y.quoted(text)
		return ok && len(rest) == 0
	}
	return y.plain(text, &plainChar)
}

// plain writes an unquoted scalar.
func (y *plainYAML) plain(text []byte, allowed *[256]bool) bool {
	if len(text) == 0 {
		return false
	}
	if !letter(text[0]) {
		return y.number(text)
	}
	for i, c := range text {
		if !allowed[c] || c == ':' && (i+1 == len(text) || text[i+1] == ' ') {
			return false
		}
	}
	if special[string(text)] {
		switch string(text) {
		case "true", "false", "null":
			y.out = append(y.out, text...)
			return true
		}
		return false
	}
	y.quote(text)
	return true
}

// number writes what begins with a digit or a minus: integers, decimals, and strings that are surely no numbers,
// such as quantities and times.
func (y *plainYAML) number(text []byte) bool {
	digits := text
	if text[0] == '-' {
		digits = text[1:]
	}
	n := 0
	for n < len(digits) && digit(digits[n]) {
		n++
	}
	switch {
	case n == 0 || n > 15:
		return false
	case n == len(digits):
		if digits[0] == '0' && n > 1 {
			return false // octal
		}
		y.out = append(y.out, text...)
		return true
	case slices.Contains(suffixesOfQuantities, string(digits[n:])) && text[0] != '-':
		y.quote(text)
		return true
	case len(digits[n:]) > 1 && len(digits[n:]) < 8 && digits[n] == '.' && digits[0] != '0' || n == 1 && digits[n] == '.':
		return y.decimal(text, digits[n+1:])
	case timeShaped(text):
		y.quote(text)
		return true
	}
	return false
}

var suffixesOfQuantities = []string{"m", "k", "M", "G", "T", "Ki", "Mi", "Gi", "Ti"}

func (y *plainYAML) decimal(text, fraction []byte) bool {
	if len(fraction) == 0 || len(fraction) > 6 {
		return false
	}
	for _, c := range fraction {
		if !digit(c) {
			return false
		}
	}
	f, err := strconv.ParseFloat(string(text), 64)
	if err != nil || f != 0 && f < 1e-5 && f > -1e-5 {
		return false
	}
	y.out = strconv.AppendFloat(y.out, f, 'f', -1, 64)
	return true
}

// timeShaped: 2026-03-02T10:00:00Z, which stays a string.
func timeShaped(text []byte) bool {
	const shape = "0000-00-00T00:00:00Z"
	if len(text) != len(shape) {
		return false
	}
	for i, c := range text {
		if s := shape[i]; s == '0' && !digit(c) || s != '0' && c != s {
			return false
		}
	}
	return true
}

// quoted writes a quoted scalar without escapes and returns what follows it.
func (y *plainYAML) quoted(text []byte) (rest []byte, ok bool) {
	end := bytes.IndexByte(text[1:], text[0]) + 1
	if end == 0 {
		return nil, false
	}
	inner, rest := text[1:end], text[end+1:]
	if bytes.ContainsAny(inner, `"\`) || len(rest) > 0 && rest[0] == text[0] {
		return nil, false
	}
	y.quote(inner)
	return rest, true
}

func (y *plainYAML) quote(text []byte) {
	y.out = append(y.out, '"')
	y.out = append(y.out, text...)
	y.out = append(y.out, '"')
}

// flow reads a collection or scalar within a flow collection and returns what follows it.
func (y *plainYAML) flow(text []byte) (rest []byte, ok bool) {
	if y.depth++; y.depth > depthMax || len(text) == 0 {
		return nil, false
	}
	defer func() { y.depth-- }()
	switch text[0] {
	case '{':
		return y.flowMapping(text[1:])
	case '[':
		return y.flowSequence(text[1:])
	case '"', '\'':
		return y.quoted(text)
	}
	n := 0
	for n < len(text) && wordChar[text[n]] {
		n++
	}
	return text[n:], y.plain(text[:n], &wordChar)
}

func (y *plainYAML) flowSequence(text []byte) (rest []byte, ok bool) {
	y.out = append(y.out, '[')
	text = bytes.TrimLeft(text, " ")
	if len(text) > 0 && text[0] == ']' {
		y.out = append(y.out, ']')
		return text[1:], true
	}
	for {
		if text, ok = y.flow(text); !ok {
			return nil, false
		}
		var done bool
		if text, done, ok = y.separator(text, ']'); done || !ok {
			return text, ok
		}
	}
}

func (y *plainYAML) flowMapping(text []byte) (rest []byte, ok bool) {
	first := len(y.keys)
	defer func() { y.keys = y.keys[:first] }()
	y.out = append(y.out, '{')
	text = bytes.TrimLeft(text, " ")
	if len(text) > 0 && text[0] == '}' {
		y.out = append(y.out, '}')
		return text[1:], true
	}
	for {
		end := flowKeyEnd(text)
		if end < 0 {
			return nil, false
		}
		if !y.key(bytes.Trim(text[:end], `"`), first) {
			return nil, false
		}
		if text, ok = y.flow(bytes.TrimLeft(text[end+1:], " ")); !ok {
			return nil, false
		}
		var done bool
		if text, done, ok = y.separator(text, '}'); done || !ok {
			return text, ok
		}
	}
}

// flowKeyEnd returns where the colon after a plain or double-quoted word stands, with a space behind it; else -1.
func flowKeyEnd(text []byte) int {
	i := bytes.IndexByte(text, ':')
	if i < 1 || i+1 >= len(text) || text[i+1] != ' ' {
		return -1
	}
	word := text[:i]
	if text[0] == '"' {
		if i < 3 || text[i-1] != '"' {
			return -1
		}
		word = text[1 : i-1]
	}
	if !letter(word[0]) {
		return -1
	}
	for _, c := range word {
		if !wordChar[c] {
			return -1
		}
	}
	return i
}

// separator reads a comma or the end of a flow collection.
func (y *plainYAML) separator(text []byte, end byte) (rest []byte, done, ok bool) {
	text = bytes.TrimLeft(text, " ")
	switch {
	case len(text) == 0:
		return nil, false, false
	case text[0] == end:
		y.out = append(y.out, end)
		return text[1:], true, true
	case text[0] == ',':
		y.out = append(y.out, ',')
		return bytes.TrimLeft(text[1:], " "), false, true
	}
	return nil, false, false
}
