// Command check fails if the chart's roles grant what no end-to-end test made a service use (package rights).
//
// Usage: check DIR, the directory that E2E_RIGHTS named while the tests ran
package main

import (
	"errors"
	"fmt"
	"os"
	"strings"

	"millwright/tools/rights"
)

func main() {
	if len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, "usage: check DIR")
		os.Exit(2)
	}
	if err := run(os.Args[1]); err != nil {
		fmt.Fprintln(os.Stderr, "rights:", err)
		os.Exit(1)
	}
}

func run(dir string) error {
	used, whole, err := rights.Read(dir)
	if err != nil {
		return err
	}
	if !whole {
		fmt.Println("rights: skipped: not all end-to-end tests have run")
		return nil
	}
	granted, err := rights.OfTheChart()
	if err != nil {
		return err
	}
	exceptions, err := rights.Exceptions()
	if err != nil {
		return fmt.Errorf("tools/rights/exceptions.txt: %w", err)
	}
	if wrong := rights.Check(granted, used, exceptions); len(wrong) > 0 {
		return errors.New("the chart's roles and what services used in the end-to-end tests differ; remove the right, or the exception in " +
			"tools/rights/exceptions.txt, write a test, or add an exception with its reason:\n  " + strings.Join(wrong, "\n  "))
	}
	fmt.Printf("rights: the tests used %d of Millwright's; each that the chart grants is among them or an exception\n", len(used))
	return nil
}
