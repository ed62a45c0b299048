package wire

import (
	"encoding/base64"
	"strings"
)

// PageBounds are a call's own limits on MaxResults.
type PageBounds struct{ Least, Most, Standard int }

// Page cuts the part of a sorted listing that a call asks for: what comes after the key in NextToken, at most
// MaxResults long. A token names the last key given out, so the listing may change between pages.
func Page[T any](c *Call, items []T, key func(T) string, bounds PageBounds) (part []T, next string, err *Error) {
	most, err := c.Params.Int("MaxResults", bounds.Standard)
	if err != nil {
		return nil, "", err
	}
	if most < bounds.Least || most > bounds.Most {
		return nil, "", InvalidValue("Value ( %d ) for parameter maxResults is invalid. Expecting a value between %d and %d.",
			most, bounds.Least, bounds.Most)
	}
	start, err := pageStart(c.Params.Str("NextToken"), items, key)
	if err != nil {
		return nil, "", err
	}
	end := min(start+most, len(items))
	if end < len(items) {
		next = PageToken(key(items[end-1]))
	}
	return items[start:end], next, nil
}

func pageStart[T any](token string, items []T, key func(T) string) (int, *Error) {
	if token == "" {
		return 0, nil
	}
	last, err := ReadPageToken(token)
	if err != nil {
		return 0, err
	}
	for i, item := range items {
		if key(item) > last {
			return i, nil
		}
	}
	return len(items), nil
}

const pagePrefix = "after:"

// PageToken is the NextToken that means: after this key.
func PageToken(key string) string {
	return base64.StdEncoding.EncodeToString([]byte(pagePrefix + key))
}

// ReadPageToken returns the key of a NextToken.
func ReadPageToken(token string) (string, *Error) {
	data, err := base64.StdEncoding.DecodeString(token)
	last, ok := strings.CutPrefix(string(data), pagePrefix)
	if err != nil || !ok {
		return "", Refuse("InvalidNextToken", "The token '%s' is invalid", token)
	}
	return last, nil
}
