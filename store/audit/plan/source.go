package plan

import (
	"bufio"
	"bytes"
	"errors"
	"io"
	"io/fs"
	"slices"
	"strings"
)

// Source of documents: a file, standard input, or what somebody pasted. The zero Source is none.
type Source struct {
	// Name for messages.
	Name string
	Open func() (io.ReadCloser, error)
}

// Text is a Source of what is in memory.
func Text(name, text string) Source {
	return Source{name, func() (io.ReadCloser, error) { return io.NopCloser(strings.NewReader(text)), nil }}
}

func (s Source) given() bool { return s.Open != nil }

// fail says that a source cannot be opened or read; what an *fs.PathError repeats of its name is left out.
func (s Source) fail(err error) error {
	var path *fs.PathError
	if errors.As(err, &path) {
		err = path.Err
	}
	return &InputError{File: s.Name, Err: err}
}

// all reads the whole of it.
func (s Source) all() ([]byte, error) {
	r, err := s.Open()
	if err != nil {
		return nil, s.fail(err)
	}
	defer r.Close()
	raw, err := io.ReadAll(r)
	if err != nil {
		return nil, s.fail(err)
	}
	return raw, nil
}

// document is one document of a source as it was written.
type document struct {
	file   string
	number int
	raw    []byte
	// json: raw is a JSON object, or a YAML flow mapping that looks like one.
	json bool
	// buffers: CapacityBuffers and what they refer to are read too. workloads: what stands for pods is.
	buffers, workloads bool
}

func (d *document) fail(object, field string, err error) error {
	return &InputError{File: d.file, Document: d.number, Object: object, Field: field, Err: err}
}

// each calls fn for every document that is not empty. The document's bytes are valid during the call only.
func (s Source) each(fn func(*document) error) error {
	r, err := s.Open()
	if err != nil {
		return s.fail(err)
	}
	defer r.Close()
	split := &splitter{r: bufio.NewReaderSize(&lines{r: bufio.NewReaderSize(r, 1<<16)}, 1<<16)}
	for n := 1; ; {
		raw, isJSON, err := split.next()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return &InputError{File: s.Name, Document: n, Err: err}
		}
		if len(raw) == 0 {
			continue
		}
		if err := fn(&document{file: s.Name, number: n, raw: raw, json: isJSON}); err != nil {
			return err
		}
		n++
	}
}

// lines reads carriage returns that end lines alone as line feeds, which YAML takes them for.
type lines struct{ r *bufio.Reader }

func (l *lines) Read(p []byte) (int, error) {
	n, err := l.r.Read(p)
	for at := 0; ; at++ {
		i := bytes.IndexByte(p[at:n], '\r')
		if i < 0 {
			return n, err
		}
		at += i
		next := p[at:n]
		if len(next) == 1 {
			ahead, _ := l.r.Peek(1)
			next = append([]byte{'\r'}, ahead...)
		}
		if len(next) == 1 || next[1] != '\n' {
			p[at] = '\n'
		}
	}
}

// splitter cuts a stream into documents: YAML at lines that begin with "---" or "...", JSON objects where
// they end.
type splitter struct {
	r   *bufio.Reader
	buf []byte
	// pending is the content that followed "---" on its line.
	pending []byte
}

// next returns a document, empty if it says nothing, or io.EOF.
func (s *splitter) next() (raw []byte, isJSON bool, err error) {
	s.buf = append(s.buf[:0], s.pending...)
	if len(s.pending) > 0 {
		s.pending = nil
		raw, err = s.yaml()
		return raw, false, err
	}
	for {
		c, err := s.r.ReadByte()
		switch {
		case err != nil:
			return nil, false, err
		case c == ' ', c == '\t', c == '\n', c == '\r':
			// Indentation before the first key would be lost, and with it the document's shape.
			if c == ' ' {
				s.buf = append(s.buf, c)
			} else if c == '\n' {
				s.buf = s.buf[:0]
			}
			continue
		case c == 0xEF: // byte order mark
			if b, err := s.r.Peek(2); err == nil && b[0] == 0xBB && b[1] == 0xBF {
				_, _ = s.r.Discard(2)
				continue
			}
		}
		if err := s.r.UnreadByte(); err != nil {
			return nil, false, err
		}
		if c == '{' {
			raw, err = s.object()
			return raw, true, err
		}
		raw, err = s.yaml()
		return raw, false, err
	}
}

// object reads up to the brace that closes the first one.
func (s *splitter) object() ([]byte, error) {
	depth, inString := 0, false
	s.buf = s.buf[:0]
	for {
		c, err := s.r.ReadByte()
		if errors.Is(err, io.EOF) {
			return nil, errors.New("the file ends within a JSON object")
		}
		if err != nil {
			return nil, err
		}
		s.buf = append(s.buf, c)
		switch {
		case inString && c == '\\':
			c, err := s.r.ReadByte()
			if err != nil {
				return nil, errors.New("the file ends within a JSON string")
			}
			s.buf = append(s.buf, c)
		case c == '"':
			inString = !inString
		case inString:
		case c == '{':
			depth++
		case c == '}':
			if depth--; depth == 0 {
				return s.buf, nil
			}
		}
	}
}

// yaml reads up to the line that ends the document; what is in the buffer already is its beginning. A
// document of comments, directives and blank lines only comes back empty.
func (s *splitter) yaml() ([]byte, error) {
	content := hasContent(s.buf)
	for from := bytes.LastIndexByte(s.buf, '\n') + 1; ; from = len(s.buf) {
		more, err := s.line()
		if err != nil && !errors.Is(err, io.EOF) {
			return nil, err
		}
		line := s.buf[from:]
		if rest, cut := separator(line); cut {
			s.buf = s.buf[:from]
			s.pending = rest
			break
		}
		content = content || hasContent(line)
		if !more {
			break
		}
	}
	if !content {
		return nil, nil
	}
	return s.buf, nil
}

func hasContent(line []byte) bool {
	text := bytes.TrimSpace(line)
	return len(text) > 0 && text[0] != '#' && text[0] != '%'
}

// line appends a line to the buffer; false if there are no more.
func (s *splitter) line() (bool, error) {
	for {
		part, err := s.r.ReadSlice('\n')
		s.buf = append(s.buf, part...)
		switch {
		case err == nil:
			return true, nil
		case errors.Is(err, bufio.ErrBufferFull):
		default:
			return false, err
		}
	}
}

// separator reports that a line ends a document, and returns what follows the mark.
func separator(line []byte) (rest []byte, ok bool) {
	text := bytes.TrimRight(line, " \t\r\n")
	if bytes.Equal(text, []byte("---")) || bytes.Equal(text, []byte("...")) || bytes.HasPrefix(text, []byte("... ")) || bytes.HasPrefix(text, []byte("...\t")) {
		return nil, true
	}
	if !bytes.HasPrefix(text, []byte("--- ")) && !bytes.HasPrefix(text, []byte("---\t")) {
		return nil, false
	}
	rest = bytes.TrimSpace(text[4:])
	if len(rest) == 0 || rest[0] == '#' || rest[0] == '%' {
		return nil, true
	}
	return append(slices.Clone(rest), '\n'), true
}
