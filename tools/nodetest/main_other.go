//go:build !linux

// Command nodetest installs the charts on a real node; that runs on Linux only.
package main

import (
	"fmt"
	"os"
)

func main() {
	fmt.Println("a kubelet needs Linux")
	os.Exit(1)
}
