// Package pseudonyms replaces the names in a bundle by others.
package pseudonyms
