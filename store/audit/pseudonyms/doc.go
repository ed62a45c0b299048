// Package pseudonyms replaces the names in a bundle by others, so that its decisions replay as before: names
// of objects, UIDs, ids of AWS, label keys and values that are not well-known, annotations, images,
// addresses, and the words of texts that neither Millwright nor Kubernetes writes. What is public stays:
// well-known label keys and what AWS's catalogues say of them, resource names, quantities, times, prices,
// kinds and reasons.
//
// Guarantees: a name has one pseudonym in a bundle, which no other name has, and they compare with each
// other, and with public words, as names do (see words), for planners break ties by name. Names that
// planners compute keep their places too (names.Replaced). What planners decide of renamed inputs is
// compared with what is on record: all but names must be equal, or the decision is named as withheld. A
// field that no list names is taken for a name; a record or observation that is not known is an error,
// ErrUnknown, or left out. What is made is looked through for the names before it is handed out.
//
// Not guaranteed: that nobody can tell whose bundle it is. Sizes, times, prices, zones, instance types,
// numbers and structure stay, and so do the order of the names and what names begin with that is a name by
// itself. Custom resources keep public domains only. The hash chain is made anew and proves nothing of the
// log.
//
// Used by millctl bundle --pseudonymise. Test with the corpus, and with simulated histories (services/sim).
package pseudonyms
