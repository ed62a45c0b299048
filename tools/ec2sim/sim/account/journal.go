package account

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

// Entity is one entity: a kind (instance, template, token …), a key, and its value; null means gone.
type Entity struct {
	Kind  string          `json:"kind"`
	Key   string          `json:"key"`
	Value json.RawMessage `json:"value"`
}

const JournalFile = "ec2sim.jsonl"

// Persist hands the entities kept in a directory to load, if there are any, and keeps the account there from
// now on.
func (s *Account) Persist(dir string, load func(Entity) error) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return fmt.Errorf("make data directory: %w", err)
	}
	path := filepath.Join(dir, JournalFile)
	entities, err := readJournal(path)
	if err != nil {
		return err
	}
	s.Lock()
	defer s.Unlock()
	for _, l := range entities {
		if err := load(l); err != nil {
			return fmt.Errorf("load %s %s from %s: %w", l.Kind, l.Key, path, err)
		}
	}
	s.journal, err = rewriteJournal(path, entities)
	return err
}

// readJournal returns the last line of each living entity, in the order of their first lines. A torn last
// line, from a crash in mid-write, is left out.
func readJournal(path string) ([]Entity, error) {
	file, err := os.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("open journal: %w", err)
	}
	defer file.Close()
	last, order := map[string]Entity{}, []string{}
	reader := bufio.NewReader(file)
	for number := 1; ; number++ {
		data, err := reader.ReadBytes('\n')
		if errors.Is(err, io.EOF) {
			return living(last, order), nil
		}
		if err != nil {
			return nil, fmt.Errorf("read journal: %w", err)
		}
		var l Entity
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

func living(last map[string]Entity, order []string) []Entity {
	var out []Entity
	for _, id := range order {
		if l := last[id]; string(l.Value) != "null" && len(l.Value) > 0 {
			out = append(out, l)
		}
	}
	return out
}

// rewriteJournal replaces the file by one with the living entities and opens it for appending.
func rewriteJournal(path string, entities []Entity) (*journal, error) {
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

func (j *journal) write(l Entity) {
	data, err := json.Marshal(l)
	if err == nil {
		_, err = j.file.Write(append(data, '\n'))
	}
	if err != nil {
		j.err = fmt.Errorf("write journal: %w", err)
	}
}

// Keep writes an entity's new value; Drop writes its end. The caller holds the lock.
func (s *Account) Keep(kind, key string, value any) {
	if s.journal == nil || s.journal.err != nil {
		return
	}
	data, err := json.Marshal(value)
	if err != nil {
		s.journal.err = fmt.Errorf("encode %s %s: %w", kind, key, err)
	} else {
		s.journal.write(Entity{kind, key, data})
	}
	if s.journal.err != nil {
		s.Cfg.Log.Error().Err(s.journal.err).Msg("state is no longer kept on disk")
	}
}

// Drop writes an entity's end.
func (s *Account) Drop(kind, key string) { s.Keep(kind, key, nil) }

// Close ends writing to disk.
func (s *Account) Close() error {
	s.Lock()
	defer s.Unlock()
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

// LoadInto puts an entity into a map by its key; LoadOnto appends it to a list.
func LoadInto[T any](l Entity, m map[string]*T) error {
	v := new(T)
	m[l.Key] = v
	return json.Unmarshal(l.Value, v)
}

func LoadOnto[T any](l Entity, list *[]*T) error {
	v := new(T)
	*list = append(*list, v)
	return json.Unmarshal(l.Value, v)
}
