package bucket_test

import (
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/s3"

	"millwright/services/bucket"
)

// Who opens an archive can have its calls measured.
func TestOptionsReachTheClient(t *testing.T) {
	reached := false
	a, err := bucket.Open(t.Context(), "s3://logs/millwright?region=eu-west-1", "log", time.Now, func(*s3.Options) { reached = true })
	if err != nil {
		t.Fatal(err)
	}
	if err := a.Close(); err != nil || !reached {
		t.Errorf("reached: %t, %v", reached, err)
	}
}
