package sim

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
)

// journal keeps the account on disk: a file of JSON lines, each the latest value of one entity (or its end).
// Lines are written before a call is answered. The file is rewritten without the superseded lines at start.
type journal struct {
	file *os.File
	err  error // the first write error; writing stops after it
}

// line is one entity: a kind (instance, template, token …), a key, and its value; null means gone.
type line struct {
	Kind  string          `json:"kind"`
	Key   string          `json:"key"`
	Value json.RawMessage `json:"value"`
}

const journalFile = "ec2sim.jsonl"

// Persist reads the account kept in a directory, if there is one, and keeps it there from now on. Call it
// before serving.
func (s *Server) Persist(dir string) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return fmt.Errorf("make data directory: %w", err)
	}
	path := filepath.Join(dir, journalFile)
	entities, err := readJournal(path)
	if err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, l := range entities {
		if err := s.load(l); err != nil {
			return fmt.Errorf("load %s %s from %s: %w", l.Kind, l.Key, path, err)
		}
	}
	s.journal, err = rewriteJournal(path, entities)
	return err
}

// readJournal returns the last line of each living entity, in the order of their first lines. A torn last
// line, from a crash in mid-write, is left out.
func readJournal(path string) ([]line, error) {
	file, err := os.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("open journal: %w", err)
	}
	defer file.Close()
	last, order := map[string]line{}, []string{}
	reader := bufio.NewReader(file)
	for number := 1; ; number++ {
		data, err := reader.ReadBytes('\n')
		if errors.Is(err, io.EOF) {
			return living(last, order), nil
		}
		if err != nil {
			return nil, fmt.Errorf("read journal: %w", err)
		}
		var l line
		if err := json.Unmarshal(data, &l); err != nil {
			return nil, fmt.Errorf("read journal line %d: %w", number, err)
		}
		id := l.Kind + " " + l.Key
		if _, known := last[id]; !known {
			order = append(order, id)
		}
		last[id] = l
	}
}

func living(last map[string]line, order []string) []line {
	var out []line
	for _, id := range order {
		if l := last[id]; string(l.Value) != "null" && len(l.Value) > 0 {
			out = append(out, l)
		}
	}
	return out
}

// rewriteJournal replaces the file by one with the living entities and opens it for appending.
func rewriteJournal(path string, entities []line) (*journal, error) {
	temporary := path + ".new"
	file, err := os.Create(temporary)
	if err != nil {
		return nil, fmt.Errorf("create journal: %w", err)
	}
	j := &journal{file: file}
	for _, l := range entities {
		j.write(l)
	}
	if j.err != nil {
		return nil, errors.Join(j.err, file.Close())
	}
	if err := os.Rename(temporary, path); err != nil {
		return nil, errors.Join(fmt.Errorf("replace journal: %w", err), file.Close())
	}
	return j, nil
}

func (j *journal) write(l line) {
	data, err := json.Marshal(l)
	if err == nil {
		_, err = j.file.Write(append(data, '\n'))
	}
	if err != nil {
		j.err = fmt.Errorf("write journal: %w", err)
	}
}

// keep writes an entity's new value; drop writes its end. The caller holds the lock.
func (s *Server) keep(kind, key string, value any) {
	if s.journal == nil || s.journal.err != nil {
		return
	}
	data, err := json.Marshal(value)
	if err != nil {
		s.journal.err = fmt.Errorf("encode %s %s: %w", kind, key, err)
	} else {
		s.journal.write(line{kind, key, data})
	}
	if s.journal.err != nil {
		s.cfg.Log.Error().Err(s.journal.err).Msg("state is no longer kept on disk")
	}
}

func (s *Server) drop(kind, key string) { s.keep(kind, key, nil) }

func (s *Server) keepInstance(in *Instance) { s.keep("instance", in.ID, in) }

func (s *Server) keepTemplate(t *launchTemplate) { s.keep("template", t.ID, t) }

// Close ends writing to disk.
func (s *Server) Close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.journal == nil {
		return nil
	}
	j := s.journal
	s.journal = nil
	if err := j.file.Close(); err != nil {
		return errors.Join(j.err, fmt.Errorf("close journal: %w", err))
	}
	return j.err
}
