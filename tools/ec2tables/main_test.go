package main

import (
	"bytes"
	"maps"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	watcherec2 "millwright/services/watcher/ec2"
	"millwright/tools/ec2sim/catalogue"
	"millwright/tools/ec2sim/sim"
)

// pricesRegion is that of the simulated account.
const pricesRegion = "us-east-1"

var today = time.Date(2027, 3, 1, 12, 0, 0, 0, time.UTC)

// account is a simulated AWS that the SDK finds by environment variables alone.
func account(t *testing.T) {
	t.Helper()
	s := httptest.NewServer(sim.New(sim.Config{ClusterName: "blue", Region: pricesRegion, Settings: sim.DefaultSettings()}))
	t.Cleanup(s.Close)
	for name, value := range map[string]string{"AWS_ENDPOINT_URL": s.URL, "AWS_REGION": pricesRegion, "AWS_ACCESS_KEY_ID": "a", "AWS_SECRET_ACCESS_KEY": "b"} {
		t.Setenv(name, value)
	}
}

// The regions that are asked for come from the price list, with the date; the others stay as they are.
func TestPricesAreThoseOfThePriceList(t *testing.T) {
	account(t)
	path := filepath.Join(t.TempDir(), "table.txt")
	if err := os.WriteFile(path, []byte("# A head.\nregion eu-west-1 2026-01-01\nm5 @107000 large xlarge\nregion us-east-1 2026-01-01\nm5 large:1\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	var out, notes bytes.Buffer
	if err := run(t.Context(), []string{"prices", path, pricesRegion}, today, &out, &notes); err != nil || notes.Len() > 0 {
		t.Fatalf("%v\n%s", err, &notes)
	}
	if want := "# A head.\nregion eu-west-1 2026-01-01\nm5 @107000 large xlarge\nregion us-east-1 2027-03-01\n"; !strings.HasPrefix(out.String(), want) {
		t.Errorf("it begins with\n%.400s", &out)
	}
	tables, err := watcherec2.ParsePriceTables(out.String())
	if err != nil || len(tables) != 2 {
		t.Fatalf("%d tables, %v", len(tables), err)
	}
	got := tables[1].Prices
	for name, want := range map[string]int64{"m5.large": 96000, "c6g.metal": 2306560, "t4g.nano": 4200, "p5.48xlarge": 55040000} {
		if got[name] != want {
			t.Errorf("%s costs %d, want %d", name, got[name], want)
		}
	}
	priced := 0
	for _, x := range catalogue.NewRegion(pricesRegion, "abcdf").Types() {
		if x.PriceMicroUSD > 0 && x.Supports("on-demand") {
			priced++
		}
	}
	if len(got) < priced*9/10 || len(got) > priced {
		t.Errorf("%d prices of %d", len(got), priced)
	}
}

// Rows that the API confirms are left out; those it contradicts, or does not know, stay.
func TestOfTheBandwidthsOnlyWhatTheAPIDoesNotSayStays(t *testing.T) {
	account(t)
	path := filepath.Join(t.TempDir(), "table.txt")
	table := "# Mbps, from somewhere.\n" + compared + " us-west-2, 2026-01-01.\nm5 large:750 xlarge:1249\nm5-flex large:390\nt2 large:0\nz99 metal:5\n"
	if err := os.WriteFile(path, []byte(table), 0o600); err != nil {
		t.Fatal(err)
	}
	var out, notes bytes.Buffer
	if err := run(t.Context(), []string{"bandwidth", path}, today, &out, &notes); err != nil {
		t.Fatal(err)
	}
	want := "# Mbps, from somewhere.\n" + compared + " us-east-1, 2027-03-01.\nm5 xlarge:1249\nm5-flex large:390\nz99 metal:5\n"
	if out.String() != want {
		t.Errorf("got\n%s\nwant\n%s", &out, want)
	}
	if notes.String() != "m5.xlarge: 1249 in the table, 1250 by its network cards\n" {
		t.Errorf("notes: %s", &notes)
	}
}

// The existing tables are unchanged after they were read and written.
func TestTheTablesKeepTheirForm(t *testing.T) {
	for _, name := range []string{"bandwidth.txt"} {
		text, err := os.ReadFile(filepath.Join("../../services/watcher/ec2/tables", name))
		if err != nil {
			t.Fatal(err)
		}
		numbers, err := readTable(string(text))
		if err != nil {
			t.Fatal(err)
		}
		var out bytes.Buffer
		if err := write(&out, maps.Clone(numbers)); err != nil {
			t.Fatal(err)
		}
		if head := strings.Join(comments(string(text)), "\n") + "\n"; head+out.String() != string(text) {
			t.Errorf("%s is written in another form", name)
		}
	}
}

func TestThePriceTableKeepsItsForm(t *testing.T) {
	text, err := os.ReadFile("../../services/watcher/ec2/tables/prices.txt")
	if err != nil {
		t.Fatal(err)
	}
	tables, err := watcherec2.ParsePriceTables(string(text))
	if err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	if err := watcherec2.FormatPriceTables(&out, tables); err != nil {
		t.Fatal(err)
	}
	if head := strings.Join(comments(string(text)), "\n") + "\n"; head+out.String() != string(text) {
		t.Error("it is written in another form")
	}
	prices := 0
	for _, table := range tables {
		prices += len(table.Prices)
	}
	if prices < 16_000 || out.Len() > 12*prices {
		t.Errorf("%d prices of %d regions in %d bytes", prices, len(tables), out.Len())
	}
}

// instances is the form of the file of ec2instances.info: prices as text, "N/A" among them, by operating
// system, and regions where a type is sold with Windows alone.
const instances = `[
 {"instance_type": "m5.large", "vCPU": 2, "pricing": {
  "us-east-1": {"linux": {"ondemand": "0.097", "reserved": {"x": "0.1"}}, "mswin": {"ondemand": "0.2"}, "ebs": "0"},
  "eu-west-1": {"linux": {"ondemand": "0.107"}}, "sa-east-1": {"linux": {"ondemand": "0.153"}}, "af-south-1": {"linux": {"ondemand": "N/A"}}}},
 {"instance_type": "t4g.nano", "pricing": {"eu-west-1": {"linux": {"ondemand": "0.0046"}}, "sa-east-1": {"mswin": {"ondemand": "0.02"}}, "ap-east-1": {"linux": {"ondemand": "0"}},
  "us-west-2-wl1-las1": {"linux": {"ondemand": "0.0056"}}}},
 {"instance_type": "d2.xlarge", "pricing": {"us-east-1": {"linux": {"ondemand": "0.69"}}}}]`

// What the file lists comes into the table with its date, but for regions whose prices are not older: these
// get the types that they lack. It is said what differs and what was left out.
func TestPricesFromAFile(t *testing.T) {
	dir := t.TempDir()
	table, file := filepath.Join(dir, "table.txt"), filepath.Join(dir, "instances.json")
	for path, text := range map[string]string{table: "# A head.\nregion eu-west-1 2024-01-01\nm4 large:1\nregion sa-east-1 2026-01-01\nm5 large:1000\nregion us-east-1 mid-2026\nm5 large:96100\n", file: instances} {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	var out, notes bytes.Buffer
	if err := run(t.Context(), []string{"prices-from", table, file, "2025-05-28"}, today, &out, &notes); err != nil {
		t.Fatal(err)
	}
	if want := "# A head.\nregion eu-west-1 2025-05-28\nm5 large:107000\nt4g nano:4600\nregion sa-east-1 2026-01-01\nm5 large:1000\n" +
		"region us-east-1 mid-2026\nd2 xlarge:690000\nm5 large:96100\nregion us-west-2-wl1-las1 2025-05-28\nt4g nano:5600\n"; out.String() != want {
		t.Errorf("got\n%s\nwant\n%s", &out, want)
	}
	if want := "af-south-1: the price of m5.large, \"N/A\", is left out\nap-east-1: the price of t4g.nano, \"0\", is left out\n" +
		"sa-east-1: m5.large costs 1000 by 2026-01-01, and 153000 by the file\nsa-east-1: kept, of 2026-01-01; 0 types added: \n" +
		"us-east-1: kept, of mid-2026; 1 types added: d2.xlarge\n"; notes.String() != want {
		t.Errorf("noted\n%s\nwant\n%s", &notes, want)
	}
	for name, args := range map[string][]string{
		"no date": {"prices-from", table, file, "May"}, "no file": {"prices-from", table, file + "x", "2025-05-28"}, "no list": {"prices-from", table, table, "2025-05-28"},
		"no table": {"prices-from", table + "x", file, "2025-05-28"},
	} {
		out.Reset()
		if err := run(t.Context(), args, today, &out, &notes); err == nil || out.Len() > 0 {
			t.Errorf("%s: no error, and %q", name, &out)
		}
	}
}

func TestWhatCannotBeAsked(t *testing.T) {
	account(t)
	s := httptest.NewServer(nil)
	s.Close()
	t.Setenv("AWS_ENDPOINT_URL", s.URL)
	t.Setenv("AWS_MAX_ATTEMPTS", "1")
	var out, notes bytes.Buffer
	for _, args := range [][]string{{"prices"}, {"prices", "../../services/watcher/ec2/tables/prices.txt", pricesRegion}, {"bandwidth", "../../services/watcher/ec2/tables/bandwidth.txt"}, {"bandwidth"}, nil} {
		if err := run(t.Context(), args, today, &out, &notes); err == nil || out.Len() > 0 {
			t.Errorf("%v: no error, and %q", args, &out)
		}
	}
}
