package remote

import (
	"bufio"
	"context"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"millwright/services/console/api"
	"millwright/services/console/view"
	"millwright/store"
	"millwright/store/audit/heads"
	"millwright/store/audit/plan"
	"millwright/store/audit/shadow"
)

const (
	// quietMax is how long a console may say nothing that works on something: it says every 15 seconds that
	// it does.
	quietMax = 90 * time.Second
	// lineMax bounds one event.
	lineMax = 16 << 20
)

// ErrCutOff: what the console sends ended too early.
var ErrCutOff = errors.New("the console's answer ended too early")

// errQuiet: nothing came for a long time.
var errQuiet = fmt.Errorf("nothing came for %s", quietMax)

// lasting sends a request whose answer takes its time, and ends it when nothing comes for long.
func (c *Client) lasting(ctx context.Context, method, path string, query url.Values, body any, read func(*http.Response) error) error {
	var sent []byte
	if body != nil {
		var err error
		if sent, err = json.Marshal(body); err != nil {
			return fmt.Errorf("encode the question: %w", err)
		}
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	quiet := time.AfterFunc(quietMax, func() { cancel(errQuiet) })
	defer quiet.Stop()
	response, err := c.send(ctx, method, path, query, sent)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK {
		text, _ := io.ReadAll(io.LimitReader(response.Body, failureMax))
		return refusal(response.StatusCode, text)
	}
	response.Body = &watched{response.Body, quiet}
	if err = read(response); err != nil && errors.Is(context.Cause(ctx), errQuiet) {
		err = fmt.Errorf("%w: %w", ErrCutOff, errQuiet)
	}
	return err
}

// watched is a body whose timer begins anew with all that comes.
type watched struct {
	io.ReadCloser
	quiet *time.Timer
}

func (w *watched) Read(p []byte) (int, error) {
	n, err := w.ReadCloser.Read(p)
	if n > 0 {
		w.quiet.Reset(quietMax)
	}
	return n, err
}

// told asks for what is told piece by piece: fn gets each event, and into the result.
func (c *Client) told(ctx context.Context, method, path string, query url.Values, body, into any, fn func(event string, data []byte) error) error {
	return c.lasting(ctx, method, path, query, body, func(response *http.Response) error {
		lines := bufio.NewScanner(response.Body)
		lines.Buffer(nil, lineMax)
		event := ""
		for lines.Scan() {
			name, value, _ := strings.Cut(lines.Text(), ": ")
			switch {
			case name == "event":
				event = value
			case name != "data":
			case event == api.EventResult:
				if err := json.Unmarshal([]byte(value), into); err != nil {
					return fmt.Errorf("decode the console's answer to %s: %w", path, err)
				}
				return nil
			case event == api.EventError:
				var p api.Problem
				if err := json.Unmarshal([]byte(value), &p); err != nil {
					return fmt.Errorf("decode the console's answer to %s: %w", path, err)
				}
				return &Refused{Status: p.Status, Message: p.Message}
			default:
				if err := fn(event, []byte(value)); err != nil {
					return err
				}
			}
		}
		return errors.Join(ErrCutOff, lines.Err())
	})
}

// Bundle has the console write a bundle. The reason names the user if the token is not theirs.
func (c *Client) Bundle(ctx context.Context, q view.BundleRequest, out io.Writer) error {
	if c.asked != "" && q.Reason != "" {
		q.Reason = fmt.Sprintf("%s (for %s)", q.Reason, c.asked)
	}
	return c.lasting(ctx, http.MethodPost, "/bundles", nil, q, func(response *http.Response) error {
		if _, err := io.Copy(out, io.LimitReader(response.Body, view.BundleMax+1)); err != nil {
			return fmt.Errorf("%w: %w", ErrCutOff, err)
		}
		switch result := response.Trailer.Get(api.ResultHeader); result {
		case api.ResultWhole:
			return nil
		case "":
			return ErrCutOff
		default:
			return &Refused{Status: http.StatusServiceUnavailable, Message: result}
		}
	})
}

// ReplayRange has the console take the decisions of a range again. Files change what they are taken on;
// progress is called with how far it is.
func (c *Client) ReplayRange(ctx context.Context, q view.RangeRequest, files []plan.Source, progress func(done, last uint64)) (*view.RangeReplayed, error) {
	read, err := question(files)
	if err != nil {
		return nil, err
	}
	q.Manifests, q.Prices = read.Manifests, read.Prices
	x := &view.RangeReplayed{}
	return x, c.told(ctx, http.MethodPost, "/replay", nil, q, x, func(event string, data []byte) error { return tellProgress(event, data, progress) })
}

// ShadowReport has the console compare what happened in the span before now with what was decided in mode
// shadow; progress is called with how far it is in the observations.
func (c *Client) ShadowReport(ctx context.Context, since time.Duration, progress func(done, last uint64)) (*shadow.Report, error) {
	r := &shadow.Report{}
	return r, c.told(ctx, http.MethodGet, "/shadow-report", url.Values{"since": {since.String()}}, nil, r, func(event string, data []byte) error {
		var p view.Progress
		if event != view.EventProgress {
			return nil
		}
		if err := json.Unmarshal(data, &p); err != nil {
			return fmt.Errorf("decode progress: %w", err)
		}
		progress(p.Message, p.LastMessage)
		return nil
	})
}

func tellProgress(event string, data []byte, progress func(done, last uint64)) error {
	var p view.Progress
	if event != view.EventProgress {
		return nil
	}
	if err := json.Unmarshal(data, &p); err != nil {
		return fmt.Errorf("decode progress: %w", err)
	}
	progress(p.Record, p.Last)
	return nil
}

// Signed is the log as the console tells it: what is needed to check signed heads.
type Signed struct {
	view.Verified
	hashes map[uint64]string
	heads  []view.Head
}

// Verify has the console check the chain of its log, and returns the signed heads that it tells, each with
// the hash of the record that was signed, and the hash of a record; 0: of none.
func (c *Client) Verify(ctx context.Context, record uint64, progress func(done, last uint64)) (*Signed, error) {
	s := &Signed{hashes: map[uint64]string{}}
	query := url.Values{}
	if record > 0 {
		query.Set("record", strconv.FormatUint(record, 10))
	}
	err := c.told(ctx, http.MethodGet, "/verify", query, nil, &s.Verified, func(event string, data []byte) error {
		switch event {
		case view.EventHead:
			var h view.Head
			if err := json.Unmarshal(data, &h); err != nil {
				return fmt.Errorf("decode head: %w", err)
			}
			s.heads = append(s.heads, h)
			s.hashes[h.Signed.Seq] = h.Hash
		case view.EventRecord:
			var r view.RecordHash
			if err := json.Unmarshal(data, &r); err != nil {
				return fmt.Errorf("decode record: %w", err)
			}
			s.hashes[r.Seq] = r.Hash
		}
		return tellProgress(event, data, progress)
	})
	return s, err
}

// ID implements heads.Log.
func (s *Signed) ID() string { return s.LogID }

// Read implements heads.Log for the one record of which a hash was told.
func (s *Signed) Read(_ context.Context, from uint64, _ int) ([]store.Record, error) {
	hash, err := hex.DecodeString(s.hashes[from])
	r := store.Record{}
	r.Seq = from
	if err != nil || len(hash) != len(r.Hash) {
		return nil, nil
	}
	copy(r.Hash[:], hash)
	return []store.Record{r}, nil
}

// AddTo adds the heads to a Checker of this log.
func (s *Signed) AddTo(c *heads.Checker) error {
	for i := range s.heads {
		if err := c.AddHead(s.heads[i].Record, &s.heads[i].Signed); err != nil {
			return err
		}
	}
	return nil
}

// PlanKind says which plan is wanted: that for pods, or for disruption, of which until the cluster is at
// rest.
type PlanKind struct {
	Disruption, Settled bool
	// At is the time of the plan (RFC 3339); "": the present.
	At string
}

// Plan has the console plan for the cluster as it is, with what the Config names laid over it.
func (c *Client) Plan(ctx context.Context, cfg plan.Config, kind PlanKind, into *view.Plan) error {
	q := view.PlanRequest{Only: view.OnlyProvisioning, Unsettled: !kind.Settled, PodsAlone: !cfg.Workloads, Now: kind.At, Text: true, PreferencePolicy: cfg.PreferencePolicy,
		MinValuesPolicy: cfg.MinValuesPolicy, FeatureGates: cfg.FeatureGates, NodeCost: cfg.NodeCost, EvictionCost: cfg.EvictionCost, NodeTime: cfg.NodeTime.String()}
	if kind.Disruption {
		q.Only = view.OnlyDisruption
	}
	var manifests []string
	for _, f := range cfg.Sources {
		text, err := textOf(f)
		if err != nil {
			return err
		}
		manifests = append(manifests, text)
	}
	q.Manifests = strings.Join(manifests, "\n---\n")
	for _, x := range []struct {
		from plan.Source
		into *string
	}{{cfg.Catalog, &q.Catalog}, {cfg.Prices, &q.Prices}} {
		if x.from.Open == nil {
			continue
		}
		var err error
		if *x.into, err = textOf(x.from); err != nil {
			return err
		}
	}
	body, err := json.Marshal(q)
	if err != nil {
		return fmt.Errorf("encode the question: %w", err)
	}
	_, err = c.do(ctx, http.MethodPost, "/plan", nil, body, into)
	return err
}

func textOf(s plan.Source) (string, error) {
	in, err := s.Open()
	if err != nil {
		return "", fmt.Errorf("read %s: %w", s.Name, err)
	}
	text, err := io.ReadAll(io.LimitReader(in, view.PlanInputMax+1))
	if err = errors.Join(err, in.Close()); err != nil {
		return "", fmt.Errorf("read %s: %w", s.Name, err)
	}
	return string(text), nil
}
