package boot

import (
	"errors"
	"fmt"
	"strings"
)

// decodeScripts finds the call of Amazon Linux 2's bootstrap.sh in shell scripts; the last one counts.
func decodeScripts(scripts []string) (*Bootstrap, error) {
	call := ""
	for _, script := range scripts {
		for line := range strings.Lines(strings.ReplaceAll(script, "\\\n", " ")) {
			if _, args, ok := strings.Cut(line, "/etc/eks/bootstrap.sh"); ok && !strings.HasPrefix(strings.TrimSpace(line), "#") {
				call = args
			}
		}
	}
	if call == "" {
		return nil, errors.New("the user data neither holds a NodeConfig nor calls /etc/eks/bootstrap.sh")
	}
	return parseBootstrapCall(splitWords(call))
}

func parseBootstrapCall(words []string) (*Bootstrap, error) {
	b := &Bootstrap{Family: AL2, Kubelet: Kubelet{Labels: map[string]string{}}}
	for i := 0; i < len(words); i++ {
		name, value, inline := strings.Cut(words[i], "=")
		if !strings.HasPrefix(name, "--") {
			if b.ClusterName == "" {
				b.ClusterName = words[i]
			}
			continue
		}
		if !inline {
			i++
			if i == len(words) {
				return nil, fmt.Errorf("bootstrap.sh option %s lacks a value", name)
			}
			value = words[i]
		}
		if err := b.applyOption(name, value); err != nil {
			return nil, err
		}
	}
	if b.ClusterName == "" || b.Endpoint == "" {
		return nil, errors.New("bootstrap.sh is called without the cluster's name or --apiserver-endpoint")
	}
	return b, nil
}

func (b *Bootstrap) applyOption(name, value string) error {
	switch name {
	case "--apiserver-endpoint":
		b.Endpoint = value
	case "--b64-cluster-ca":
		b.CA = value
	case "--dns-cluster-ip":
		b.ClusterDNS = []string{value}
	case "--local-disks":
		b.RAID0 = value == "raid0"
	case "--kubelet-extra-args":
		return b.Kubelet.applyFlags(value)
	}
	return nil
}

// splitWords splits a command line as a shell does, with single and double quotes and backslashes. Unclosed
// quotes reach to the end.
func splitWords(text string) []string {
	var words []string
	var word strings.Builder
	var quote rune
	inWord, escaped := false, false
	for _, r := range text {
		switch {
		case escaped:
			word.WriteRune(r)
			escaped = false
		case r == '\\' && quote != '\'':
			escaped, inWord = true, true
		case quote != 0 && r == quote:
			quote = 0
		case quote != 0:
			word.WriteRune(r)
		case r == '\'' || r == '"':
			quote, inWord = r, true
		case r == ' ' || r == '\t' || r == '\n' || r == '\r':
			if inWord {
				words = append(words, word.String())
				word.Reset()
			}
			inWord = false
		default:
			word.WriteRune(r)
			inWord = true
		}
	}
	if inWord {
		words = append(words, word.String())
	}
	return words
}
