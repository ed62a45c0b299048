// Package ec2 is how lifecycle calls EC2, SSM, EKS and IAM: calls with deadlines, budgets and bounded
// retries, answers in small types of our own, errors in classes (errors.go). The watcher's polls
// (services/watcher/ec2) use the SDK directly.
//
// Configuration is the SDK's own: AWS_ENDPOINT_URL, region and credentials from the environment or IMDS.
//
// Retries: reads and calls that may be repeated without harm (terminate, tag, delete) are retried by the SDK,
// at most three times. CreateFleet is sent exactly once per call: after an unknown outcome its caller sends
// the same bytes again (DESIGN §5), and only with a single attempt is the class of its error exact.
//
// To test with it, point AWS_ENDPOINT_URL (or Config.AWS) at an httptest server or at the simulator.
package ec2
