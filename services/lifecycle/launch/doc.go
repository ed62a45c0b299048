// Package launch turns a NodeClaim into the bytes of one CreateFleet request, and the instance that came of
// it into the NodeClaim's details.
//
// The order of a launch (DESIGN §5):
//
//  1. Marks reads from the Ledger which offerings have no capacity: look-ups only, no I/O.
//  2. Builder.Build reads AWS and makes sure that the launch templates exist. There is no instance yet.
//     Claims of which equal things are asked get an equal Built.Key; the caller launches them together.
//  3. Builder.Request completes it for one claim or several, EncodeRequest gives the bytes, and the caller
//     appends LaunchRequested, or FleetRequested, with them and the token.
//  4. DecodeRequest gives the request back from the record: always from there, so that a repetition sends the
//     same bytes with the same token. services/internal/ec2 sends it.
//  5. The caller appends Launched, LaunchFailed or FleetAnswered; Details derives labels, capacity and price of the NodeClaim.
//
// Errors of Build are *ec2.Failure (services/internal/ec2) whenever they say something about the claim;
// ec2.Classify works on them. NoCapacity and NotReady doom the claim; anything else sets Launched to Unknown
// with the Failure's reason and is tried again with backoff. Nothing that Build does has to be undone.
//
// Guarantees: user data, templates and requests are the same bytes for equal inputs; the request names launch
// templates by id and explicit version; a request holds no reference to its inputs. Not guaranteed: that
// EC2 has capacity, or that a template still exists when the request is sent.
package launch
