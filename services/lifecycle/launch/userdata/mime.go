package userdata

import (
	"bytes"
	"fmt"
	"io"
	"mime"
	"mime/multipart"
	"net/mail"
	"net/textproto"
	"strings"
)

const (
	boundary    = "//"
	shellScript = `text/x-shellscript; charset="us-ascii"`
	nodeConfig  = "application/node.eks.aws"
)

// part of a MIME archive.
type part struct {
	header textproto.MIMEHeader
	body   string
}

func newPart(contentType, body string) part {
	return part{header: textproto.MIMEHeader{"Content-Type": {contentType}}, body: body}
}

// isArchive reports text that claims to be a MIME archive.
func isArchive(text string) bool {
	text = strings.TrimSpace(text)
	return strings.HasPrefix(text, "MIME-Version:") || strings.HasPrefix(text, "Content-Type:")
}

// parseArchive returns the parts of a multipart MIME text, bodies as they are encoded.
func parseArchive(text string) ([]part, error) {
	text = strings.TrimSpace(strings.ReplaceAll(text, "\r", "")) + "\n" // one kind of line end, or the reader gets lost
	msg, err := mail.ReadMessage(strings.NewReader(text))
	if err != nil {
		return nil, fmt.Errorf("%w: parse MIME header: %w", ErrInvalid, err)
	}
	kind, params, err := mime.ParseMediaType(msg.Header.Get("Content-Type"))
	if err != nil {
		return nil, fmt.Errorf("%w: parse MIME content type: %w", ErrInvalid, err)
	}
	if !strings.HasPrefix(kind, "multipart/") || params["boundary"] == "" {
		return nil, fmt.Errorf("%w: user data is not in multipart MIME format", ErrInvalid)
	}
	var parts []part
	for r := multipart.NewReader(msg.Body, params["boundary"]); ; {
		p, err := r.NextRawPart()
		if err == io.EOF {
			return parts, nil
		}
		if err != nil {
			return nil, fmt.Errorf("%w: read MIME part %d: %w", ErrInvalid, len(parts)+1, err)
		}
		body, err := io.ReadAll(p)
		if err != nil {
			return nil, fmt.Errorf("%w: read MIME part %d: %w", ErrInvalid, len(parts)+1, err)
		}
		parts = append(parts, part{header: p.Header, body: string(body)})
	}
}

// writeArchive returns the archive of parts, without carriage returns.
func writeArchive(parts []part) (string, error) {
	var b bytes.Buffer
	b.WriteString("MIME-Version: 1.0\nContent-Type: multipart/mixed; boundary=\"" + boundary + "\"\n\n")
	w := multipart.NewWriter(&b)
	if err := w.SetBoundary(boundary); err != nil {
		return "", fmt.Errorf("write MIME archive: %w", err)
	}
	for _, p := range parts {
		if collides(p.body) {
			return "", fmt.Errorf("%w: a part contains the line --%s, which separates parts", ErrInvalid, boundary)
		}
		pw, err := w.CreatePart(p.header)
		if err != nil {
			return "", fmt.Errorf("write MIME part: %w", err)
		}
		if _, err := io.WriteString(pw, p.body); err != nil {
			return "", fmt.Errorf("write MIME part: %w", err)
		}
	}
	if err := w.Close(); err != nil {
		return "", fmt.Errorf("write MIME archive: %w", err)
	}
	return strings.ReplaceAll(b.String(), "\r", ""), nil
}

// collides reports a body that would end its part early.
func collides(body string) bool {
	return strings.Contains("\n"+strings.ReplaceAll(body, "\r", ""), "\n--"+boundary)
}
