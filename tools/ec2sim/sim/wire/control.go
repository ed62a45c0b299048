package wire

import (
	"encoding/json"
	"errors"
	"io"
	"net/http"
)

// UnknownControl refuses a request that the control interface does not have.
func UnknownControl(r *http.Request) error {
	return &Error{Status: http.StatusNotFound, Code: "UnknownControl", Message: r.Method + " " + r.URL.Path + "; see GET /_control/"}
}

// DecodeControl reads a JSON body strictly: a misspelt field must not go unnoticed in a test.
func DecodeControl(r *http.Request, into any) error {
	dec := json.NewDecoder(r.Body)
	dec.DisallowUnknownFields()
	if err := dec.Decode(into); err != nil && !errors.Is(err, io.EOF) {
		return Refuse("InvalidBody", "%s", err)
	}
	return nil
}
