// Package api serves what package view knows as JSON under /api/v1. One table of routes makes the mux and the
// OpenAPI document, so neither has what the other lacks.
//
// Guarantees: nobody gets anything without a token and the right to it; every answer, list and stream is
// bounded; an act is answered only once it is on record, with who gave the order and why. Not guaranteed:
// that two pages of a list are of one moment.
package api
