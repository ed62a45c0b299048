// Package fenced finds commands in documents: in fenced blocks of shell and in code within a sentence.
//
// Tests use it to check that each command a document shows exists, with its flags.
package fenced

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"mvdan.cc/sh/v3/syntax"
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

// Commands returns all commands of these programs in the documents, in their order. Errors are of reading,
// and of blocks of shell that are none.
func Commands(files []string, programs ...string) ([]Command, error) {
	var out []Command
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			return nil, fmt.Errorf("read document: %w", err)
		}
		found, err := scan(file, string(text))
		if err != nil {
			return nil, err
		}
		for _, c := range found {
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

// scan returns the commands of one document. A fenced block must parse; code in a sentence that does not is
// no command.
func scan(file, text string) ([]Command, error) {
	var out []Command
	lines := strings.Split(text, "\n")
	for i := 0; i < len(lines); i++ {
		line := strings.TrimSpace(lines[i])
		language, fence := strings.CutPrefix(line, "```")
		if !fence {
			for _, m := range inSentence.FindAllStringSubmatch(line, -1) {
				found, _ := commands(Command{File: file, Line: i + 1}, m[1])
				out = append(out, found...)
			}
			continue
		}
		begin := i + 1
		for i++; i < len(lines) && !strings.HasPrefix(strings.TrimSpace(lines[i]), "```"); i++ {
		}
		if language != "sh" && language != "bash" {
			continue
		}
		found, err := commands(Command{File: file, Line: begin + 1, Block: true}, strings.Join(lines[begin:min(i, len(lines))], "\n"))
		if err != nil {
			return nil, fmt.Errorf("parse the block of shell at %s:%d: %w", file, begin, err)
		}
		out = append(out, found...)
	}
	return out, nil
}

// runners are programs that run the command which their arguments are.
var runners = []string{"sudo", "time", "$"}

// commands are the simple commands of a text that begins where c says.
func commands(c Command, text string) ([]Command, error) {
	file, err := syntax.NewParser().Parse(strings.NewReader(text), "")
	if err != nil {
		return nil, err
	}
	var out []Command
	syntax.Walk(file, func(n syntax.Node) bool {
		call, ok := n.(*syntax.CallExpr)
		if !ok {
			return true
		}
		found := c
		for _, word := range call.Args {
			if arg := unquoted(text, word.Parts); len(found.Args) > 0 || !slices.Contains(runners, arg) {
				found.Args = append(found.Args, arg)
			}
		}
		if len(found.Args) > 0 {
			found.Line += int(call.Pos().Line()) - 1
			out = append(out, found)
		}
		return true
	})
	return out, nil
}

// unquoted is a word without its quotes; expansions stay as they are written.
func unquoted(text string, parts []syntax.WordPart) string {
	var b strings.Builder
	for _, part := range parts {
		switch p := part.(type) {
		case *syntax.Lit:
			b.WriteString(p.Value)
		case *syntax.SglQuoted:
			b.WriteString(p.Value)
		case *syntax.DblQuoted:
			b.WriteString(unquoted(text, p.Parts))
		default:
			b.WriteString(text[p.Pos().Offset():p.End().Offset()])
		}
	}
	return b.String()
}
