// Package clock is a process's clock with witnesses (DESIGN §2): it is compared with the Date of every answer
// of the API server and of AWS, and says when it cannot be relied on.
//
// Guarantees: Now runs with the monotonic clock from the last moment at which all witnesses agreed with the
// wall clock, so setting the wall clock never shows in it. Check fails from the moment the wall clock has
// been set by more than Tolerance, or a witness has said that it is off by more than that; it passes again
// once witnesses agree. A slow answer never makes a correct clock look wrong: what an answer says about the
// time is an interval, as wide as the round trip took. Not guaranteed: anything before the first witness;
// Check fails until then. Test with Config.Wall and Config.Monotonic.
package clock
