package boot

import (
	"errors"
	"fmt"
	"strings"

	"mvdan.cc/sh/v3/expand"
	"mvdan.cc/sh/v3/syntax"
)

const bootstrapPath = "/etc/eks/bootstrap.sh"

// decodeScripts finds the call of Amazon Linux 2's bootstrap.sh in shell scripts; the last one counts. A
// script that is no shell script calls nothing.
func decodeScripts(scripts []string) (*Bootstrap, error) {
	var arguments []*syntax.Word
	var unread error
	for _, script := range scripts {
		file, err := syntax.NewParser().Parse(strings.NewReader(script), "user data")
		if err != nil {
			unread = errors.Join(unread, err)
			continue
		}
		syntax.Walk(file, func(n syntax.Node) bool {
			if call, ok := n.(*syntax.CallExpr); ok && bootstrapArguments(call) != nil {
				arguments = bootstrapArguments(call)
			}
			return true
		})
	}
	if arguments == nil {
		return nil, errors.Join(errors.New("the user data neither holds a NodeConfig nor calls "+bootstrapPath), unread)
	}
	words, err := expand.Fields(nil, arguments...)
	if err != nil {
		return nil, fmt.Errorf("expand the arguments of %s: %w", bootstrapPath, err)
	}
	return parseBootstrapCall(words)
}

// bootstrapArguments are what follows bootstrap.sh in a command; nil if it does not call it, or without any.
func bootstrapArguments(call *syntax.CallExpr) []*syntax.Word {
	for i, word := range call.Args {
		if word.Lit() == bootstrapPath && i+1 < len(call.Args) {
			return call.Args[i+1:]
		}
	}
	return nil
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
