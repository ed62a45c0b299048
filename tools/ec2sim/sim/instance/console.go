package instance

import (
	"encoding/base64"
	"fmt"
	"strings"
	"time"

	"millwright/tools/ec2sim/sim/wire"
)

type consoleAnswer struct {
	ID        string `xml:"instanceId"`
	Timestamp string `xml:"timestamp"`
	Output    string `xml:"output"`
}

// GetConsoleOutput is what an instance wrote to its serial console: that it boots, and why its kubelet gave
// up, if it did. Only instances on nitro have the latest.
func (s *Service) GetConsoleOutput(c *wire.Call) (any, error) {
	id := c.Params.Str("InstanceId")
	if id == "" {
		return nil, wire.MissingParameter("InstanceId")
	}
	found, err := s.visibleInstances([]string{id})
	if err != nil {
		return nil, err
	}
	in := found[0]
	if c.Params.Bool("Latest") && in.InstanceType().Hypervisor != "nitro" {
		return nil, wire.Refuse("UnsupportedOperation", "This instance type does not support retrieving the latest console logs.")
	}
	if c.Params.Bool("DryRun") {
		return nil, wire.DryRun()
	}
	now := s.Now()
	return consoleAnswer{in.ID, wire.Stamp(now), base64.StdEncoding.EncodeToString([]byte(in.console(now)))}, nil
}

func (in *Instance) console(at time.Time) string {
	if in.State(at) == Pending {
		return ""
	}
	lines := []string{"[    0.000000] Linux version 6.12.0", "[    4.210034] systemd[1]: Reached target Multi-User System."}
	if in.Progress.Problem != "" {
		lines = append(lines, fmt.Sprintf("[    9.480112] cloud-init[1893]: kubelet: \x1b[31mfailed to run Kubelet: %s\x1b[0m", in.Progress.Problem))
	}
	return strings.Join(lines, "\r\n") + "\r\n"
}
