// Package ec2 is the only door from the services to EC2, SSM, EKS, IAM and STS: calls with deadlines and
// bounded retries, answers in small types of our own, errors in classes (errors.go).
//
// Configuration is the SDK's own: AWS_ENDPOINT_URL, region and credentials from the environment or IMDS.
//
// Retries: reading calls and calls that may be repeated without harm (terminate, tag, delete) are retried by the
// SDK, at most three times. CreateFleet is sent exactly once per call: after an unknown outcome its caller
// sends the same bytes again (DESIGN §5), and only a single attempt makes the class of its error exact.
//
// Callers: services/lifecycle, services/watcher/ec2. Test with it: point AWS_ENDPOINT_URL (or Config.AWS) at
// an httptest server or at the simulator.
package ec2
