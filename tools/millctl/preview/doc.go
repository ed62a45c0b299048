// Package preview shows what would be launched without launching it: the user data of an instance, from files alone, and what
// EC2 offers to an EC2NodeClass, from an account or whatever AWS_ENDPOINT_URL names. Neither needs a cluster.
package preview
