package main

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"strings"
	"sync"
	"time"

	"github.com/spf13/cobra"

	"millwright/services/console/trust"
)

const (
	// readersName is the command that startReaders has this program carry out in a process of its own.
	readersName = "readers"
	// readersPause is between two questions of a reader.
	readersPause = 2 * time.Second
	// readersLimit is how long the first answers to all of them may take.
	readersLimit = time.Minute
)

// readersPaths are asked in turn: what the pages ask for.
var readersPaths = []string{"/status", "/nodes?limit=100", "/decisions?limit=50", "/timeline", "/pods", "/savings", "/commands", "/nodepools"}

// visit says whom readers ask and as whom, as JSON.
type visit struct {
	URL            string
	Trust          trust.Anchors
	Tokens         []string
	Readers, Tails int
}

// got counts what readers get: answers, requests to come again, records of live tails, and errors.
type got struct{ Answered, Refused, Records, Failed int }

func (g *got) add(o got) {
	g.Answered += o.Answered
	g.Refused += o.Refused
	g.Records += o.Records
	g.Failed += o.Failed
}

// readers are at the console.
type readers struct {
	cmd  *exec.Cmd
	in   io.Closer
	told *json.Decoder
}

// startReaders runs this program once more, which leaves the CPU to all others, and waits until each reader
// has had an answer.
func startReaders(ctx context.Context, v visit) (*readers, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, fmt.Errorf("find own binary: %w", err)
	}
	cmd := exec.CommandContext(ctx, "nice", "-n", "19", self, readersName)
	cmd.Stderr = os.Stderr
	in, err := cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("start readers: %w", err)
	}
	r := &readers{cmd: cmd, in: in, told: json.NewDecoder(out)}
	err = json.NewEncoder(in).Encode(v)
	if err == nil {
		err = r.told.Decode(&got{})
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("wait for the first answers: %w", err), in.Close(), cmd.Wait())
	}
	return r, nil
}

// leave ends the readers.
func (r *readers) leave() (g got, err error) {
	if err := r.in.Close(); err != nil {
		return g, err
	}
	if err := r.told.Decode(&g); err != nil {
		return g, errors.Join(fmt.Errorf("ask readers what they got: %w", err), r.cmd.Wait())
	}
	return g, r.cmd.Wait()
}

// readersCommand reads a visit from standard input and asks until the input ends. It writes what the readers
// got twice: when each has had an answer, and at the end.
func readersCommand() *cobra.Command {
	return &cobra.Command{Use: readersName, Hidden: true, Args: cobra.NoArgs, RunE: func(cmd *cobra.Command, _ []string) error {
		in := json.NewDecoder(cmd.InOrStdin())
		var v visit
		if err := in.Decode(&v); err != nil {
			return fmt.Errorf("read whom to ask: %w", err)
		}
		ctx, cancel := context.WithCancel(cmd.Context())
		defer cancel()
		go func() {
			_ = in.Decode(&v) // its end is what is waited for
			cancel()
		}()
		return newCrowd(v).visit(ctx, json.NewEncoder(cmd.OutOrStdout()))
	}}
}

// crowd is what readers have in common.
type crowd struct {
	visiting visit
	client   *http.Client
	mu       sync.Mutex
	got      got
}

// newCrowd returns readers who trust the certificate that the console has published.
func newCrowd(v visit) *crowd {
	config := &tls.Config{RootCAs: v.Trust.Pool(), ServerName: v.Trust.ServerName, MinVersion: tls.VersionTLS12}
	return &crowd{visiting: v, client: &http.Client{Transport: &http.Transport{TLSClientConfig: config, MaxIdleConnsPerHost: v.Readers + v.Tails}}}
}

func (c *crowd) visit(ctx context.Context, tell *json.Encoder) error {
	var group sync.WaitGroup
	for i := range c.visiting.Readers {
		group.Go(func() { c.read(ctx, i) })
	}
	for i := range c.visiting.Tails {
		group.Go(func() { c.follow(ctx, i) })
	}
	limited, cancel := context.WithTimeout(ctx, readersLimit)
	defer cancel()
	for c.sum().Answered < c.visiting.Readers {
		if err := pause(limited, readersPause/10); err != nil {
			return fmt.Errorf("wait for the first answers (%+v so far): %w", c.sum(), err)
		}
	}
	if err := tell.Encode(c.sum()); err != nil {
		return err
	}
	<-ctx.Done()
	group.Wait()
	return tell.Encode(c.sum())
}

func (c *crowd) sum() got {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.got
}

func (c *crowd) get(ctx context.Context, i int, path string) (*http.Response, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, c.visiting.URL+"/api/v1"+path, nil)
	if err != nil {
		return nil, err
	}
	req.Header.Set("Authorization", "Bearer "+c.visiting.Tokens[i%len(c.visiting.Tokens)])
	return c.client.Do(req)
}

// read asks one question after the other. Readers do not all ask the same at the same time.
func (c *crowd) read(ctx context.Context, i int) {
	if pause(ctx, readersPause*time.Duration(i)/time.Duration(c.visiting.Readers)) != nil {
		return
	}
	for n := i; ; n++ {
		c.count(ctx, func() (int, error) {
			res, err := c.get(ctx, i, readersPaths[n%len(readersPaths)])
			if err != nil {
				return 0, err
			}
			defer func() { _ = res.Body.Close() }()
			_, err = io.Copy(io.Discard, res.Body)
			return res.StatusCode, err
		})
		if pause(ctx, readersPause) != nil {
			return
		}
	}
}

// count one answer; what failed because the readers leave is none.
func (c *crowd) count(ctx context.Context, ask func() (int, error)) {
	status, err := ask()
	if ctx.Err() != nil {
		return
	}
	var g got
	switch {
	case err == nil && status == http.StatusOK:
		g.Answered++
	case err == nil && (status == http.StatusTooManyRequests || status == http.StatusServiceUnavailable):
		g.Refused++
	default:
		g.Failed++
	}
	c.add(g)
}

func (c *crowd) add(g got) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.got.add(g)
}

// follow reads a live tail, and begins another if it ends.
func (c *crowd) follow(ctx context.Context, i int) {
	for ctx.Err() == nil {
		c.count(ctx, func() (int, error) {
			res, err := c.get(ctx, i, "/decisions/tail")
			if err != nil {
				return 0, err
			}
			defer func() { _ = res.Body.Close() }()
			if res.StatusCode != http.StatusOK {
				return res.StatusCode, nil
			}
			return res.StatusCode, c.countRecords(res.Body)
		})
		if pause(ctx, readersPause) != nil {
			return
		}
	}
}

// countRecords reads a stream of server-sent events to its end.
func (c *crowd) countRecords(in io.Reader) error {
	buf := make([]byte, 32<<10)
	for {
		n, err := in.Read(buf)
		c.add(got{Records: strings.Count(string(buf[:n]), "event: record")})
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
	}
}
