package userdata

import (
	"bytes"
	"fmt"
	"maps"
	"regexp"
	"strconv"

	"github.com/BurntSushi/toml"
	corev1 "k8s.io/api/core/v1"
)

type table = map[string]any

// bottlerocket renders TOML: the user's settings with ours written over them (userdata §4). Keys that are not
// known here stay.
func bottlerocket(in Input) (string, error) {
	root := table{}
	if isDeep(in.UserData) {
		return "", fmt.Errorf("%w: it is nested more than %d deep", ErrInvalid, deepest)
	}
	if _, err := toml.Decode(in.UserData, &root); err != nil {
		return "", fmt.Errorf("%w: %w", ErrInvalid, err)
	}
	settings, err := child(root, "settings", "settings")
	if err != nil {
		return "", err
	}
	kubernetes, err := child(settings, "kubernetes", "settings.kubernetes")
	if err != nil {
		return "", err
	}
	if err := setKubernetes(kubernetes, in); err != nil {
		return "", err
	}
	if in.RAID0 {
		if err := setInstanceStorage(settings, in.BottlerocketBindsDirs); err != nil {
			return "", err
		}
	}
	var b bytes.Buffer
	enc := toml.NewEncoder(&b)
	enc.Indent = ""
	if err := enc.Encode(root); err != nil {
		return "", fmt.Errorf("%w: %w", ErrInvalid, err)
	}
	return b.String(), nil
}

// deepest bounds how deep keys and values are nested: what is kept and written of them grows by its square,
// so that a key of 200 KB, which an object may hold, takes gigabytes.
const deepest = 100

var deepKey = regexp.MustCompile(fmt.Sprintf(`(?:(?:[\w-]+|"[^"\n]*"|'[^'\n]*')[ \t]*\.[ \t]*){%d}`, deepest))

func isDeep(text string) bool {
	depth := 0
	for _, b := range []byte(text) {
		switch b {
		case '[', '{':
			if depth++; depth > deepest {
				return true
			}
		case ']', '}':
			depth = max(0, depth-1)
		}
	}
	return deepKey.MatchString(text)
}

// child returns the table under key, made if it is absent.
func child(parent table, key, path string) (table, error) {
	switch v := parent[key].(type) {
	case nil:
		t := table{}
		parent[key] = t
		return t, nil
	case table:
		return v, nil
	}
	return nil, fmt.Errorf("%w: %s is not a table", ErrInvalid, path)
}

func setKubernetes(k table, in Input) error {
	labels, err := child(k, "node-labels", "settings.kubernetes.node-labels")
	if err != nil {
		return err
	}
	for key, v := range in.Labels {
		labels[key] = v
	}
	if len(labels) == 0 {
		delete(k, "node-labels")
	}
	k["cluster-name"], k["api-server"] = in.Cluster, in.Endpoint
	delete(k, "cluster-certificate")
	if in.CABundle != "" {
		k["cluster-certificate"] = in.CABundle
	}
	k["node-taints"] = bottlerocketTaints(in.Taints)
	if dns := firstDNS(in); dns != "" {
		k["cluster-dns-ip"] = dns
	}
	setKubelet(k, in)
	return nil
}

func setKubelet(k table, in Input) {
	c := in.Kubelet
	setNumber(k, "max-pods", c.MaxPods)
	setMap(k, "system-reserved", c.SystemReserved)
	setMap(k, "kube-reserved", c.KubeReserved)
	setMap(k, "eviction-hard", c.EvictionHard)
	setMap(k, "eviction-soft", c.EvictionSoft)
	setMap(k, "eviction-soft-grace-period", durationTexts(c.EvictionSoftGracePeriod))
	setNumber(k, "eviction-max-pod-grace-period", c.EvictionMaxPodGracePeriod)
	setNumberText(k, "image-gc-high-threshold-percent", c.ImageGCHighThresholdPercent)
	setNumberText(k, "image-gc-low-threshold-percent", c.ImageGCLowThresholdPercent)
	if c.CPUCFSQuota != nil {
		k["cpu-cfs-quota-enforced"] = *c.CPUCFSQuota
	}
}

func setMap(k table, key string, m map[string]string) {
	if len(m) > 0 {
		k[key] = maps.Clone(m)
	}
}

func setNumber(k table, key string, n *int32) {
	if n != nil {
		k[key] = int64(*n)
	}
}

func setNumberText(k table, key string, n *int32) {
	if n != nil {
		k[key] = strconv.FormatInt(int64(*n), 10)
	}
}

// bottlerocketTaints maps each key to the sorted list of "<value>:<effect>".
func bottlerocketTaints(taints []corev1.Taint) map[string][]string {
	out := map[string][]string{}
	for _, t := range sortedTaints(taints) {
		out[t.Key] = append(out[t.Key], t.Value+":"+string(t.Effect))
	}
	return out
}

const mountCommand = "000-mount-instance-storage"

// setInstanceStorage adds the boot command that formats and binds instance storage.
func setInstanceStorage(settings table, bindDirs bool) error {
	commands, err := child(settings, "bootstrap-commands", "settings.bootstrap-commands")
	if err != nil {
		return err
	}
	bind := []string{"apiclient", "ephemeral-storage", "bind"}
	if bindDirs {
		bind = append(bind, "--dirs", "/var/lib/containerd", "/var/lib/kubelet", "/var/log/pods")
	}
	commands[mountCommand] = table{
		"commands":  [][]string{{"apiclient", "ephemeral-storage", "init"}, bind},
		"essential": true,
		"mode":      "always",
	}
	return nil
}
