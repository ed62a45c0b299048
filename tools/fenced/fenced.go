// Package fenced finds commands in documents: in fenced blocks of shell and in code within a sentence.
//
// It knows as much of a shell as the documents use: comments, quotes, pipes, lists, redirections, continued
// lines. Tests use it to check that each command a document shows exists, with its flags.
package fenced

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

// Command is a simple command as written, without redirections.
type Command struct {
	// File and Line are where it begins.
	File string
	Line int
	Args []string
	// Block: it is in a fenced block, so it is complete; in a sentence it may be a mere mention.
	Block bool
}

func (c Command) String() string {
	return fmt.Sprintf("%s:%d: %s", c.File, c.Line, strings.Join(c.Args, " "))
}

// Commands returns all commands of these programs in the documents, in their order. Errors are of reading.
func Commands(files []string, programs ...string) ([]Command, error) {
	var out []Command
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			return nil, fmt.Errorf("read document: %w", err)
		}
		for _, c := range scan(file, string(text)) {
			if slices.Contains(programs, c.Args[0]) {
				out = append(out, c)
			}
		}
	}
	return out, nil
}

// Documents are the documents of the repository at root: README.md and docs, sorted.
func Documents(root string) ([]string, error) {
	var out []string
	for _, pattern := range []string{"README.md", "docs/*.md", "docs/*/*.md"} {
		found, err := filepath.Glob(filepath.Join(root, pattern))
		if err != nil || len(found) == 0 {
			return nil, fmt.Errorf("find %s in %s: %w", pattern, root, errors.Join(err, os.ErrNotExist))
		}
		out = append(out, found...)
	}
	return out, nil
}

var inSentence = regexp.MustCompile("`([^`]+)`")

func scan(file, text string) []Command {
	var out []Command
	var block *string
	lines := strings.Split(text, "\n")
	for i := 0; i < len(lines); i++ {
		line := strings.TrimSpace(lines[i])
		if language, fence := strings.CutPrefix(line, "```"); fence {
			if block != nil {
				block = nil
			} else {
				block = &language
			}
			continue
		}
		at := i + 1
		switch {
		case block == nil:
			for _, m := range inSentence.FindAllStringSubmatch(line, -1) {
				out = append(out, commands(Command{File: file, Line: at}, m[1])...)
			}
		case *block == "sh" || *block == "bash":
			for open(line) && i+1 < len(lines) {
				i++
				line = strings.TrimSuffix(line, `\`) + "\n" + strings.TrimSpace(lines[i])
			}
			out = append(out, commands(Command{File: file, Line: at, Block: true}, line)...)
		}
	}
	return out
}

// open reports whether a line continues: it ends with a backslash, or a quote is not closed.
func open(line string) bool {
	_, quote := words(line)
	return strings.HasSuffix(line, `\`) || quote
}

// commands splits a line at ;, && and ||, and at pipes.
func commands(c Command, text string) []Command {
	all, _ := words(text)
	var out []Command
	var args []string
	end := func() {
		for len(args) > 0 && (slices.Contains([]string{"do", "then", "sudo", "time", "$"}, args[0]) || assignment.MatchString(args[0])) {
			args = args[1:]
		}
		if c.Args = args; len(args) > 0 {
			out = append(out, c)
		}
		args = nil
	}
	for i := 0; i < len(all); i++ {
		switch w := all[i]; {
		case w == ";" || w == "|" || w == "&&" || w == "||" || w == "&":
			end()
		case w == ">" || w == ">>" || w == "<" || w == "2>":
			i++
		default:
			args = append(args, w)
		}
	}
	end()
	return out
}

var assignment = regexp.MustCompile(`^[A-Z_]+=`)

// operators, longer ones first.
var operators = []string{"&&", "||", ">>", "2>", ";", "|", "&", ">", "<"}

// words splits text as a shell does; open: a quote is not closed.
func words(text string) (out []string, open bool) {
	var word strings.Builder
	quote, started := byte(0), false
	end := func() {
		if started {
			out = append(out, word.String())
		}
		word.Reset()
		started = false
	}
	for i := 0; i < len(text); i++ {
		r := text[i]
		switch {
		case quote != 0 && r == quote:
			quote = 0
		case quote != 0:
			word.WriteByte(r)
		case r == '\'' || r == '"':
			quote, started = r, true
		case r == '#' && !started:
			return out, false
		case r == ' ' || r == '\n' || r == '\t':
			end()
		default:
			if at := slices.IndexFunc(operators, func(o string) bool { return strings.HasPrefix(text[i:], o) && !(started && o == "2>") }); at >= 0 {
				end()
				out = append(out, operators[at])
				i += len(operators[at]) - 1
				continue
			}
			word.WriteByte(r)
			started = true
		}
	}
	end()
	return out, quote != 0
}
