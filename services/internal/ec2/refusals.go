package ec2

import "errors"

// refusalsMax is after how many refusals the others are not tried any more.
const refusalsMax = 20

// Refusals of calls of which each is about a thing of its own, such as deletions of what nobody uses any
// more: what may not be done to one does not keep it from being done to the others.
type Refusals struct{ errs []error }

// Take takes in what a call came to. It returns an error once it is no use to go on: what is not about the
// thing alone, such as throttling, or too many refusals.
func (r *Refusals) Take(err error) error {
	if err == nil {
		return nil
	}
	r.errs = append(r.errs, err)
	if Classify(err) != Permanent || IsUnauthenticated(err) || len(r.errs) >= refusalsMax {
		return r.Err()
	}
	return nil
}

// Err joins all of them; nil if there were none.
func (r *Refusals) Err() error { return errors.Join(r.errs...) }
