package userdata

import (
	"fmt"
	"strings"
)

// al2 renders a MIME archive: the user's parts, then the call of the image's bootstrap script (userdata §2).
func al2(in Input) (string, error) {
	parts, err := al2UserParts(in.UserData)
	if err != nil {
		return "", err
	}
	return writeArchive(append(parts, newPart(shellScript, al2Bootstrap(in))))
}

func al2UserParts(text string) ([]part, error) {
	switch {
	case strings.TrimSpace(text) == "":
		return nil, nil
	case isArchive(text):
		return parseArchive(text)
	}
	return []part{newPart(shellScript, text)}, nil
}

func al2Bootstrap(in Input) string {
	call := fmt.Sprintf("/etc/eks/bootstrap.sh '%s' --apiserver-endpoint '%s'", in.Cluster, in.Endpoint)
	if in.CABundle != "" {
		call += fmt.Sprintf(" --b64-cluster-ca '%s'", in.CABundle)
	}
	lines := []string{call}
	dns := firstDNS(in)
	if isIPv6(dns) {
		lines = append(lines, "--ip-family ipv6")
	}
	if dns != "" {
		lines = append(lines, fmt.Sprintf("--dns-cluster-ip '%s'", dns))
	}
	if in.Kubelet.MaxPods != nil {
		lines = append(lines, "--use-max-pods false")
	}
	if args := kubeletArgs(in); args != "" {
		lines = append(lines, fmt.Sprintf("--kubelet-extra-args '%s'", args))
	}
	if in.RAID0 {
		lines = append(lines, "--local-disks raid0")
	}
	return "#!/bin/bash -xe\n" +
		"exec > >(tee /var/log/user-data.log|logger -t user-data -s 2>/dev/console) 2>&1\n" +
		strings.Join(lines, " \\\n")
}
