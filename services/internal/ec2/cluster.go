package ec2

import (
	"context"
	"errors"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/eks"
)

// Cluster is what nodes must know of the EKS cluster.
type Cluster struct {
	Endpoint string
	// CA is the certificate authority, base64.
	CA string
	// CIDR of services; the IPv4 one if there is one.
	CIDR string
	// Version is major.minor.
	Version string
	ARN     string
}

// DescribeCluster asks EKS about the cluster.
func (c *Client) DescribeCluster(ctx context.Context) (Cluster, error) {
	out, err := read(ctx, c, "eks:DescribeCluster", with(c.eks.DescribeCluster, &eks.DescribeClusterInput{Name: aws.String(c.cluster)}))
	if err != nil {
		return Cluster{}, err
	}
	if out.Cluster == nil {
		return Cluster{}, &CallError{Action: "eks:DescribeCluster", Err: errors.New("answer has no cluster")}
	}
	k := out.Cluster
	cl := Cluster{Endpoint: aws.ToString(k.Endpoint), Version: aws.ToString(k.Version), ARN: aws.ToString(k.Arn)}
	if k.CertificateAuthority != nil {
		cl.CA = aws.ToString(k.CertificateAuthority.Data)
	}
	if n := k.KubernetesNetworkConfig; n != nil {
		cl.CIDR = firstOf(aws.ToString(n.ServiceIpv4Cidr), aws.ToString(n.ServiceIpv6Cidr))
	}
	return cl, nil
}
