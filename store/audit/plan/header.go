package plan

import (
	"encoding/json"
	"errors"
)

// headerOf finds apiVersion and kind of a JSON object without decoding the rest. raw is valid JSON.
func headerOf(raw []byte) (header, error) {
	var h header
	i := blank(raw, 0)
	if i >= len(raw) || raw[i] != '{' {
		return h, errors.New("is not a mapping")
	}
	for i = blank(raw, i+1); i < len(raw) && raw[i] == '"'; i = blank(raw, i) {
		end := skip(raw, i)
		key := raw[i:end]
		i = blank(raw, blank(raw, end)+1) // past the colon
		end = skip(raw, i)
		var err error
		switch string(key) {
		case `"apiVersion"`:
			h.apiVersion, err = text(raw[i:end], "apiVersion")
		case `"kind"`:
			h.kind, err = text(raw[i:end], "kind")
		}
		if err != nil {
			return h, err
		}
		if i = blank(raw, end); i < len(raw) && raw[i] == ',' {
			i++
		}
	}
	return h, nil
}

func text(raw []byte, key string) (string, error) {
	var s string
	if err := json.Unmarshal(raw, &s); err != nil {
		return "", errors.New(key + " is not a string")
	}
	return s, nil
}

func blank(raw []byte, i int) int {
	for i < len(raw) && (raw[i] == ' ' || raw[i] == '\n' || raw[i] == '\t' || raw[i] == '\r') {
		i++
	}
	return i
}

// skip returns the index after the value that begins at i.
func skip(raw []byte, i int) int {
	depth := 0
	for ; i < len(raw); i++ {
		switch raw[i] {
		case '"':
			for i++; i < len(raw) && raw[i] != '"'; i++ {
				if raw[i] == '\\' {
					i++
				}
			}
			if depth == 0 {
				return min(i+1, len(raw))
			}
		case '{', '[':
			depth++
		case '}', ']':
			if depth == 0 {
				return i
			}
			if depth--; depth == 0 {
				return i + 1
			}
		case ',', ' ', '\n', '\t', '\r':
			if depth == 0 {
				return i
			}
		}
	}
	return i
}
