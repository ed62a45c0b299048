package main

import (
	"fmt"

	"github.com/spf13/cobra"

	"millwright/services/lifecycle/launch"
	"millwright/tools/millctl/preview"
)

func userDataCommand() *cobra.Command {
	var files []string
	var u preview.UserData
	cmd := &cobra.Command{
		Use: "userdata -f NODECLASS -f NODECLAIM --cluster-name NAME --cluster-endpoint URL", Short: "Print the user data that an instance would boot with", Args: cobra.NoArgs,
		Long: `Userdata prints what an instance of an EC2NodeClass would boot with for a NodeClaim, decoded, and nothing else. It needs neither
a cluster nor an account.

The capacity type is the one that the claim's requirements leave; where several are left, reserved or spot if the catalogue has an available
offering, else on-demand. Without --instance-type the number of pods is the class's kubelet.maxPods, or none.`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			name, err := cmd.Flags().GetString("cluster-name")
			switch {
			case err != nil:
				return err
			case len(files) == 0:
				return fmt.Errorf("userdata: no input: give -f NODECLASS -f NODECLAIM")
			case name == "":
				return fmt.Errorf("userdata: --cluster-name is required")
			case u.Cluster.Endpoint == "":
				return fmt.Errorf("userdata: --cluster-endpoint is required")
			}
			u.Cluster.Name = name
			if u.Objects, err = preview.Read(files, cmd.InOrStdin()); err != nil {
				return fmt.Errorf("userdata: %w", err)
			}
			text, err := u.Render()
			if err != nil {
				return fmt.Errorf("userdata: %w", err)
			}
			_, err = cmd.OutOrStdout().Write(text)
			return err
		},
	}
	u.Cluster = launch.Cluster{}
	f := cmd.Flags()
	f.StringArrayVarP(&files, "filename", "f", nil, "file with the EC2NodeClass or the NodeClaim, YAML or JSON; - is standard input; may be repeated")
	f.StringVar(&u.Cluster.Endpoint, "cluster-endpoint", "", "URL of the API server")
	f.StringVar(&u.Cluster.CABundle, "cluster-ca", "", "CA bundle in base64; none if not given")
	f.StringVar(&u.Cluster.CIDR, "cluster-cidr", "", "CIDR of services; AL2023 needs it")
	f.StringVar(&u.Cluster.DNS, "cluster-dns", "", "address of the cluster's DNS service, unless the class's kubelet.clusterDNS names one; none if not given")
	f.StringVar(&u.InstanceType, "instance-type", "", "type of the instance (with --catalog)")
	f.StringVar(&u.Catalog, "catalog", "", "file with instance types, as millctl catalog -o json writes it")
	return cmd
}
