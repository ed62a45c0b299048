// Command metrics prints docs/metrics.md: every metric of Millwright with type, labels, meaning and
// stability, as the code registers them. `make generate` runs it.
package main

import (
	"fmt"
	"os"
)

func main() {
	if _, err := os.Stdout.WriteString(page(groups())); err != nil {
		fmt.Fprintln(os.Stderr, "metrics:", err)
		os.Exit(1)
	}
}
