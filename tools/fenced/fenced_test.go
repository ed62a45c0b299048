package fenced

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/spf13/cobra"
)

func TestCommands(t *testing.T) {
	file := filepath.Join(t.TempDir(), "a.md")
	text := "Run `kubectl get pods -o wide`, or `ls`; it's `kubectl` that counts.\n" +
		"```yaml\nkubectl: apply\n```\n" +
		"```sh\n" +
		"kubectl apply -f a.yaml      # not `kubectl delete`\n" +
		"A=1 millctl log | grep x && millctl why pod 'a b' > out.txt; kubectl patch x -p '{\"a\":\n  1}'\n" +
		"for c in a b; do\n  kubectl get $c \\\n    --all\ndone\n" +
		"```\nAfter it, `millctl verify`.\n"
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	list, err := Commands([]string{file}, "kubectl", "millctl")
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, c := range list {
		got = append(got, strings.TrimPrefix(c.String(), file))
	}
	want := []string{":1: kubectl get pods -o wide", ":1: kubectl", ":6: kubectl apply -f a.yaml", ":7: millctl log", ":7: millctl why pod a b", ":7: kubectl patch x -p {\"a\":\n  1}",
		":10: kubectl get $c --all", ":14: millctl verify"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}

func TestCheck(t *testing.T) {
	run := func(*cobra.Command, []string) {}
	root := &cobra.Command{Use: "prog", Version: "1"}
	root.PersistentFlags().String("cluster", "", "")
	why := &cobra.Command{Use: "why"}
	pod := &cobra.Command{Use: "pod NAME", Args: cobra.ExactArgs(1), Run: run}
	pod.Flags().BoolP("all", "a", false, "")
	pod.Flags().StringP("output", "o", "", "")
	why.AddCommand(pod)
	root.AddCommand(why)
	for line, want := range map[string]string{
		"prog why pod NAME --cluster c -o json -a": "",
		"prog --cluster=c why pod NAME -ojson":     "",
		"prog why pod a/b --help":                  "",
		"prog --version":                           "",
		"prog COMMAND --help":                      "",
		"prog how":                                 "unknown command",
		"prog why node":                            "prog why has no command node",
		"prog why pod NAME --every":                "prog why pod has no flag --every",
		"prog why pod NAME -x":                     "prog why pod has no flag -x",
		"prog why pod NAME -o":                     "no value",
		"prog why pod":                             "accepts 1 arg(s), received 0",
		"prog why pod a b":                         "accepts 1 arg(s), received 2",
	} {
		err := Check(root, Command{Args: strings.Fields(line), Block: true})
		if want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("%s: error %v, want %q", line, err, want)
		}
	}
	for _, mention := range []string{"prog why", "prog why pod", "prog why pod -o"} {
		if err := Check(root, Command{Args: strings.Fields(mention)}); err != nil {
			t.Errorf("%s in a sentence: %v", mention, err)
		}
	}
}

// inRepository matches paths in documents that should exist in the repository.
var inRepository = regexp.MustCompile(`(?:^|[\s(="'` + "`" + `])((?:\./)?(?:deploy|docs|tools|services|planner|store|api|proto|events)/[A-Za-z0-9_./*-]*[A-Za-z0-9_*])`)

// The files that documents name exist.
func TestFilesThatDocumentsNameExist(t *testing.T) {
	files, err := Documents("../..")
	if err != nil || len(files) < 10 {
		t.Fatalf("%d documents, %v", len(files), err)
	}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for i, line := range strings.Split(string(text), "\n") {
			for _, m := range inRepository.FindAllStringSubmatch(line, -1) {
				if found, err := filepath.Glob(filepath.Join("../..", m[1])); err != nil || len(found) == 0 {
					t.Errorf("%s:%d: there is no %s", file, i+1, m[1])
				}
			}
		}
	}
}
