package sim

import (
	"encoding/base64"
	"strings"
)

// pageBounds are a call's own limits on MaxResults.
type pageBounds struct{ least, most, standard int }

// page cuts the part of a sorted listing that a call asks for: what comes after the key in NextToken, at most
// MaxResults long. A token names the last key given out, so the listing may change between pages.
func page[T any](c *call, items []T, key func(T) string, bounds pageBounds) (part []T, next string, err *Error) {
	most, err := c.params.int("MaxResults", bounds.standard)
	if err != nil {
		return nil, "", err
	}
	if most < bounds.least || most > bounds.most {
		return nil, "", invalidValue("Value ( %d ) for parameter maxResults is invalid. Expecting a value between %d and %d.",
			most, bounds.least, bounds.most)
	}
	start, err := pageStart(c.params.str("NextToken"), items, key)
	if err != nil {
		return nil, "", err
	}
	end := min(start+most, len(items))
	if end < len(items) {
		next = pageToken(key(items[end-1]))
	}
	return items[start:end], next, nil
}

func pageStart[T any](token string, items []T, key func(T) string) (int, *Error) {
	if token == "" {
		return 0, nil
	}
	last, err := readPageToken(token)
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

func pageToken(key string) string {
	return base64.StdEncoding.EncodeToString([]byte(pagePrefix + key))
}

func readPageToken(token string) (string, *Error) {
	data, err := base64.StdEncoding.DecodeString(token)
	last, ok := strings.CutPrefix(string(data), pagePrefix)
	if err != nil || !ok {
		return "", refuse("InvalidNextToken", "The token '%s' is invalid", token)
	}
	return last, nil
}
