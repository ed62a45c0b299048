package main

import (
	"strings"
	"testing"

	"millwright/tools/rights"
)

// Nothing is wrong after some tests, whatever they used; after all of them, what none used is.
func TestOnlyTheWholeSuiteIsChecked(t *testing.T) {
	dir := t.TempDir()
	if err := rights.Record(dir, "TestSome", rights.Used{rights.Parse("millwright-watcher", "watch", "pods"): true}); err != nil {
		t.Fatal(err)
	}
	if err := run(dir); err != nil {
		t.Errorf("after some tests: %v", err)
	}
	if err := rights.RecordWhole(dir); err != nil {
		t.Fatal(err)
	}
	err := run(dir)
	if err == nil || !strings.Contains(err.Error(), "granted, but no test uses it: millwright-terminator create pods/eviction") {
		t.Errorf("after all tests: %v", err)
	} else if strings.Contains(err.Error(), "millwright-watcher watch pods\n") {
		t.Errorf("what a test used is missed: %v", err)
	}
}

// What is granted or excepted and used as it should be passes.
func TestASuiteThatUsesEverythingPasses(t *testing.T) {
	dir, used := t.TempDir(), rights.Used{}
	granted, err := rights.OfTheChart()
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range granted {
		used[r] = true
	}
	exceptions, err := rights.Exceptions()
	if err != nil {
		t.Fatal(err)
	}
	for _, x := range exceptions {
		delete(used, x.Right)
	}
	for _, x := range exceptions { // a service's use counts for one process too
		if x.Right.Account == "millwright" {
			r := x.Right
			r.Account = "millwright-watcher"
			delete(used, r)
		}
	}
	if err := rights.Record(dir, "TestAll", used); err != nil {
		t.Fatal(err)
	}
	if err := rights.RecordWhole(dir); err != nil {
		t.Fatal(err)
	}
	if err := run(dir); err != nil {
		t.Error(err)
	}
}
