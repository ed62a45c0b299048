// Command healthcheck reports whether a container is healthy; images built from scratch have no shell or
// curl.
//
// Usage: healthcheck URL|FILE... Each URL must answer 200 and each file must exist. Certificates are not
// verified: it only ever asks its own container.
package main

import (
	"crypto/tls"
	"fmt"
	"net/http"
	"os"
	"strings"
	"time"
)

func main() {
	if len(os.Args) < 2 {
		fmt.Fprintln(os.Stderr, "usage: healthcheck URL|FILE...")
		os.Exit(2)
	}
	for _, what := range os.Args[1:] {
		if err := check(what); err != nil {
			fmt.Fprintln(os.Stderr, "healthcheck:", err)
			os.Exit(1)
		}
	}
}

func check(what string) error {
	if !strings.Contains(what, "://") {
		_, err := os.Stat(what)
		return err
	}
	client := http.Client{
		Timeout:   3 * time.Second,
		Transport: &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}},
	}
	resp, err := client.Get(what)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return fmt.Errorf("get %s: %s", what, resp.Status)
	}
	return nil
}
