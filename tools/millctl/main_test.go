package main

import (
	"bytes"
	"strings"
	"testing"
)

// A word that is no command of a group is refused, so that no script takes it for done.
func TestMisspeltCommandsFail(t *testing.T) {
	for args, want := range map[string]int{
		"archive verifi":                  1,
		"--cluster-name c archive verifi": 1,
		"archive --cluster-name=c verifi": 1,
		"aws polcy":                       1,
		"migrate storage-versions":        1,
		"shadow reprot --since 1h":        1,
		"completion fihs":                 1,
		"archive":                         0,
		"archive --help":                  0,
		"aws --help":                      0,
		"help archive":                    0,
		"completion fish":                 0,
		"archive --no-such-flag":          1,
		"nonsense":                        1,
	} {
		if status := run(append([]string{"millctl"}, strings.Fields(args)...)); status != want {
			t.Errorf("millctl %s: status %d, want %d", args, status, want)
		}
	}
}

// Who gives too few or too many arguments is told which ones there are.
func TestArgumentsAreNamed(t *testing.T) {
	for args, want := range map[string]string{
		"why":             "why takes 2 argument(s), not 0: why pod|node|",
		"why node":        "why takes 2 argument(s), not 1: why pod|node|",
		"approve":         "approve takes 1 argument(s), not 0: approve ID --reason TEXT",
		"rollouts resume": "resume takes 1 argument(s), not 0: resume NODEPOOL --reason TEXT",
		"stop all now":    "stop takes 1 argument(s), not 2: stop voluntary|all --reason TEXT",
	} {
		cmd := command()
		cmd.SetOut(&bytes.Buffer{})
		cmd.SetArgs(strings.Fields(args))
		if err := cmd.Execute(); err == nil || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("millctl %s: %v, want %s…", args, err, want)
		}
	}
}
