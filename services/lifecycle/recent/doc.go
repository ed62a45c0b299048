// Package recent keeps what a service wrote to the API server or read from it lately, because its cache may
// lag behind by any time.
//
// Objects lends the newest version known of an object to whoever looks into the cache. Outdated knows
// versions that are no longer the newest, so that no write starts from one: the API server would refuse it,
// and refuse it again until the cache has caught up. What the API server itself has answered since is the
// newest, whatever was thought of it. Both forget after a while, whatever the cache does: a restored API
// server counts resourceVersions anew, and nothing here may outlive that.
//
// All of it may be lost: what is forgotten costs a conflict and a read.
package recent
