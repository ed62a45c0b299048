package main

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"millwright/store/audit/whatif"
)

// ran runs a command and returns what it prints, and its error.
func ran(t *testing.T, stdin string, args ...string) (string, error) {
	t.Helper()
	var out bytes.Buffer
	c := command()
	c.SetIn(strings.NewReader(stdin))
	c.SetOut(&out)
	c.SetArgs(args)
	err := c.ExecuteContext(t.Context())
	return out.String(), err
}

const tainted = `apiVersion: karpenter.sh/v1
kind: NodePool
metadata:
  name: default
spec:
  template:
    spec:
      nodeClassRef: {group: karpenter.k8s.aws, kind: EC2NodeClass, name: default}
      taints: [{key: apart, effect: NoSchedule}]
`

func TestReplayWithAChange(t *testing.T) {
	replay := []string{"replay", "--recording", "../../store/audit/testdata/v20/TestPodsGetNodesAndEmptyNodesGo_in_one_process.rec"}
	text, err := ran(t, tainted, append(replay, "--with", "-")...)
	if err != nil || !strings.Contains(text, "refused") || !strings.Contains(text, "came out otherwise") || strings.Contains(text, "the same") {
		t.Errorf("%v\n%s", err, text)
	}
	text, err = ran(t, tainted, append(replay, "--with", "-", "-o", "json")...)
	report := &whatif.Report{}
	if err := json.Unmarshal(text2json(text), report); err != nil {
		t.Fatal(err)
	}
	if err != nil || report.Provisioning.Was.Made == 0 || report.Provisioning.Instead.Made > 0 || report.Provisioning.Instead.Refused == 0 {
		t.Errorf("%v: %+v", err, report)
	}
	prices := filepath.Join(t.TempDir(), "prices.json")
	if err := os.WriteFile(prices, []byte(`{"prices": [{"instanceType": "m5.large", "capacityType": "spot", "price": "9"}]}`), 0o600); err != nil {
		t.Fatal(err)
	}
	text, err = ran(t, "", append(replay, "--with", prices, "--option", "node-cost=0", "-o", "wide")...)
	if err != nil || !strings.Contains(text, "the same") {
		t.Errorf("%v\n%s", err, text)
	}
	for want, args := range map[string][]string{
		"Pod cannot be changed in what was recorded":                     {"--with", "-"},
		"-o goes with --with or --option":                                {"-o", "json"},
		`invalid --option: option "x"`:                                   {"--option", "x"},
		"none of the others can be; [from since] were all set":           {"--from", "3", "--since", "1h"},
		"holds no NodePool, EC2NodeClass, DisruptionPolicy, NodeOverlay": {"--with", "replay_test.go.empty"},
	} {
		if strings.HasSuffix(args[len(args)-1], ".empty") {
			args[1] = filepath.Join(t.TempDir(), "empty.yaml")
			if err := os.WriteFile(args[1], []byte("apiVersion: v1\nkind: ConfigMap\nmetadata: {name: x}\n"), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		text, err := ran(t, "apiVersion: v1\nkind: Pod\nmetadata: {name: p}\n", append(replay, args...)...)
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v: %v, want %q\n%s", args, err, want, text)
		}
	}
}

// A span of records that are not there is no success: a script would take it for a replay without
// divergences.
func TestReplayOfRecordsThatAreNotThere(t *testing.T) {
	replay := []string{"replay", "--recording", "../../store/audit/testdata/v20/TestPodsGetNodesAndEmptyNodesGo_in_one_process.rec"}
	for _, span := range [][]string{{"--from", "100000"}, {"--record", "100000"}, {"--from", "9", "--to", "8"}, {"--from", "100000", "--with", "-"}} {
		text, err := ran(t, tainted, append(replay, span...)...)
		if err == nil || !strings.Contains(err.Error(), "no record is in that span") {
			t.Errorf("%v: %v\n%s", span, err, text)
		}
	}
	if text, err := ran(t, "", append(replay, "--from", "9", "--to", "100000")...); err != nil || !strings.Contains(text, "0 divergences") {
		t.Errorf("%v\n%s", err, text)
	}
}

// text2json is what follows the name of the recording.
func text2json(text string) []byte {
	_, body, _ := strings.Cut(text, "\n")
	return []byte(body)
}
