package ec2

import (
	"errors"
	"fmt"

	"github.com/aws/aws-sdk-go-v2/aws"
)

// pagesMax bounds the pages of one answer. The longest there is, the history of spot prices, has some
// hundreds.
const pagesMax = 10_000

var errEndless = errors.New("the answer has no end")

// Pages is one answer of AWS that comes in pages, each with the token of the next. The zero value is for a
// new one.
type Pages struct{ seen map[string]bool }

// Next takes in the token of a page; nil or "" is the last one's. It fails if the token came before, since
// the pages would then go round for ever, and if there is no end of them.
func (p *Pages) Next(action string, token *string) error {
	next := aws.ToString(token)
	switch {
	case next == "":
		return nil
	case p.seen[next]:
		return &CallError{Action: action, Err: fmt.Errorf("%w: the token of page %d came before", errEndless, len(p.seen)+1)}
	case len(p.seen) >= pagesMax:
		return &CallError{Action: action, Err: fmt.Errorf("%w after %d pages", errEndless, pagesMax)}
	case p.seen == nil:
		p.seen = map[string]bool{}
	}
	p.seen[next] = true
	return nil
}
