// Package preview shows what would be launched without launching it: the user data of an instance, from files
// alone, and what EC2 offers to an EC2NodeClass, from an account or from the endpoint in AWS_ENDPOINT_URL.
// Neither needs a cluster.
package preview
