package userdata

import (
	"fmt"
	"strings"
)

// windows renders a PowerShell script: the user's text, then the image's bootstrap script (userdata §5).
// Instance-store policies have no effect.
func windows(in Input) string {
	var b strings.Builder
	b.WriteString("<powershell>\n")
	if in.UserData != "" {
		b.WriteString(in.UserData + "\n")
	}
	b.WriteString(`[string]$EKSBootstrapScriptFile = "$env:ProgramFiles\Amazon\EKS\Start-EKSBootstrap.ps1"` + "\n")
	fmt.Fprintf(&b, "& $EKSBootstrapScriptFile -EKSClusterName '%s' -APIServerEndpoint '%s'", in.Cluster, in.Endpoint)
	if in.CABundle != "" {
		fmt.Fprintf(&b, " -Base64ClusterCA '%s'", in.CABundle)
	}
	if args := kubeletArgs(in); args != "" {
		fmt.Fprintf(&b, " -KubeletExtraArgs '%s'", args)
	}
	if dns := firstDNS(in); dns != "" {
		fmt.Fprintf(&b, " -DNSClusterIP '%s'", dns)
	}
	b.WriteString("\n</powershell>")
	return b.String()
}
