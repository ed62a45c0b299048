package boot

import (
	"errors"
	"fmt"
	"strings"
)

const (
	powerShellOpen, powerShellClose = "<powershell>", "</powershell>"
	windowsBootstrap                = `C:\Program Files\Amazon\EKS\Start-EKSBootstrap.ps1`
)

// decodePowerShell runs, as far as strings go, the script that EC2Launch finds between its tags, and returns
// what Start-EKSBootstrap.ps1 is called with; the last call counts. Of the language it knows strings,
// variables, comments and calls of programs; other commands do nothing.
func decodePowerShell(text string) (*Bootstrap, error) {
	_, rest, _ := strings.Cut(text, powerShellOpen)
	script, _, closed := strings.Cut(rest, powerShellClose)
	if !closed {
		return nil, errors.New("the user data has no " + powerShellClose)
	}
	if strings.Contains(script, powerShellOpen) {
		return nil, errors.New("the user data has several " + powerShellOpen)
	}
	s := &powerShell{text: script, variables: map[string]string{"env:programfiles": `C:\Program Files`}}
	var call []string
	for !s.ended() {
		words, err := s.statement()
		if err != nil {
			return nil, err
		}
		if len(words) > 1 && strings.EqualFold(words[0], windowsBootstrap) {
			call = words[1:]
		}
	}
	if call == nil {
		return nil, errors.New("the user data does not call " + windowsBootstrap)
	}
	return parseWindowsCall(call)
}

func parseWindowsCall(words []string) (*Bootstrap, error) {
	b := &Bootstrap{Family: Windows, Kubelet: Kubelet{Labels: map[string]string{}}}
	for i := 0; i < len(words); i += 2 {
		if !strings.HasPrefix(words[i], "-") || i+1 == len(words) {
			return nil, fmt.Errorf("Start-EKSBootstrap.ps1: %q is no parameter with a value", words[i])
		}
		switch value := words[i+1]; strings.ToLower(words[i]) {
		case "-eksclustername":
			b.ClusterName = value
		case "-apiserverendpoint":
			b.Endpoint = value
		case "-base64clusterca":
			b.CA = value
		case "-dnsclusterip":
			b.ClusterDNS = []string{value}
		case "-kubeletextraargs":
			if err := b.Kubelet.applyFlags(value); err != nil {
				return nil, err
			}
		case "-containerruntime", "-servicecidr", "-excludedsnatcidrs":
		default:
			return nil, fmt.Errorf("Start-EKSBootstrap.ps1: a parameter cannot be found that matches %s", words[i])
		}
	}
	if b.ClusterName == "" || b.Endpoint == "" {
		return nil, errors.New("Start-EKSBootstrap.ps1 is called without -EKSClusterName or -APIServerEndpoint")
	}
	return b, nil
}

// powerShell reads a script from left to right.
type powerShell struct {
	text      string
	variables map[string]string // by name in lower case
}

func (s *powerShell) ended() bool { return s.text == "" }

// statement reads up to the end of a line or a semicolon. It carries assignments out and returns the words of
// a command.
func (s *powerShell) statement() (words []string, err error) {
	for {
		s.text = strings.TrimLeft(s.text, " \t\r")
		switch {
		case s.ended():
			return s.assigned(words), nil
		case s.text[0] == '\n' || s.text[0] == ';':
			s.text = s.text[1:]
			return s.assigned(words), nil
		case strings.HasPrefix(s.text, "`\n") || strings.HasPrefix(s.text, "`\r\n"):
			_, s.text, _ = strings.Cut(s.text, "\n")
		case strings.HasPrefix(s.text, "<#"):
			_, s.text, _ = strings.Cut(s.text, "#>")
		case s.text[0] == '#':
			if at := strings.IndexByte(s.text, '\n'); at >= 0 {
				s.text = s.text[at:]
			} else {
				s.text = ""
			}
		default:
			w, err := s.word(len(words) == 0)
			if err != nil {
				return nil, err
			}
			words = append(words, w)
		}
	}
}

// assigned carries out "$name = value"; of a command it drops the call operator.
func (s *powerShell) assigned(words []string) []string {
	if len(words) == 3 && strings.HasPrefix(words[0], assignable) && words[1] == "=" {
		s.variables[strings.TrimPrefix(words[0], assignable)] = words[2]
		return nil
	}
	if len(words) > 0 && (words[0] == "&" || words[0] == ".") {
		return words[1:]
	}
	return words
}

// assignable marks a variable at the beginning of a statement, which is not replaced by its value.
const assignable = "\x00"

// word reads strings and text up to the next space.
func (s *powerShell) word(first bool) (string, error) {
	if first && s.text[0] == '[' { // the type of a variable
		if _, rest, ok := strings.Cut(s.text, "]"); ok && strings.HasPrefix(rest, "$") {
			s.text = rest
		}
	}
	if first && s.text[0] == '$' {
		s.text = s.text[1:]
		return assignable + s.name(), nil
	}
	if here := s.text; strings.HasPrefix(here, "@'") || strings.HasPrefix(here, `@"`) {
		end := "\n" + here[1:2] + "@"
		body, rest, ok := strings.Cut(here[2:], end)
		if !ok {
			return "", fmt.Errorf("a string has no end: %.40q", here)
		}
		s.text = rest
		return strings.TrimPrefix(strings.TrimPrefix(body, "\r"), "\n"), nil
	}
	var b strings.Builder
	for !s.ended() && !strings.ContainsRune(" \t\r\n;", rune(s.text[0])) {
		c := s.text[0]
		s.text = s.text[1:]
		switch c {
		case '\'':
			part, err := s.quoted()
			if err != nil {
				return "", err
			}
			b.WriteString(part)
		case '"':
			part, err := s.expanded()
			if err != nil {
				return "", err
			}
			b.WriteString(part)
		case '$':
			b.WriteString(s.variables[s.name()])
		case '`':
			b.WriteString(s.escaped())
		default:
			b.WriteByte(c)
		}
	}
	return b.String(), nil
}

// quoted reads to the end of a string in single quotes, in which two of them are one.
func (s *powerShell) quoted() (string, error) {
	var b strings.Builder
	for {
		part, rest, ok := strings.Cut(s.text, "'")
		if !ok {
			return "", fmt.Errorf("a string has no end: %.40q", s.text)
		}
		b.WriteString(part)
		if s.text = rest; !strings.HasPrefix(rest, "'") {
			return b.String(), nil
		}
		b.WriteByte('\'')
		s.text = rest[1:]
	}
}

// expanded reads to the end of a string in double quotes, in which variables are replaced.
func (s *powerShell) expanded() (string, error) {
	var b strings.Builder
	for !s.ended() {
		c := s.text[0]
		s.text = s.text[1:]
		switch {
		case c == '"' && strings.HasPrefix(s.text, `"`):
			b.WriteByte('"')
			s.text = s.text[1:]
		case c == '"':
			return b.String(), nil
		case c == '`':
			b.WriteString(s.escaped())
		case c == '$':
			b.WriteString(s.variables[s.name()])
		default:
			b.WriteByte(c)
		}
	}
	return "", errors.New("a string in double quotes has no end")
}

// escaped is the character after a backtick.
func (s *powerShell) escaped() string {
	if s.ended() {
		return ""
	}
	c := s.text[:1]
	s.text = s.text[1:]
	if known, ok := map[string]string{"n": "\n", "t": "\t", "r": "\r", "0": "\x00"}[c]; ok {
		return known
	}
	return c
}

// name reads the name of a variable, in lower case: "env:ProgramFiles", "{a name}".
func (s *powerShell) name() string {
	if strings.HasPrefix(s.text, "{") {
		name, rest, _ := strings.Cut(s.text[1:], "}")
		s.text = rest
		return strings.ToLower(name)
	}
	end := strings.IndexFunc(s.text, func(r rune) bool {
		return !(r == '_' || r == ':' || r >= '0' && r <= '9' || r >= 'A' && r <= 'Z' || r >= 'a' && r <= 'z')
	})
	if end < 0 {
		end = len(s.text)
	}
	name := s.text[:end]
	s.text = s.text[end:]
	return strings.ToLower(name)
}
