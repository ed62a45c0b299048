package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
)

// sources is the folder of the module.
func sources(ctx context.Context) (string, error) {
	out, err := exec.CommandContext(ctx, "go", "list", "-m", "-f", "{{.Dir}}", "millwright").Output()
	if err != nil {
		return "", fmt.Errorf("find the sources (run this inside of them): %w", err)
	}
	return strings.TrimSpace(string(out)), nil
}

// result of one benchmark: values by unit, such as ns/op and records/s.
type result struct {
	name   string
	values map[string]float64
}

// results of a run, in order.
type results []result

func (r results) findResult(name string) (result, error) {
	for _, x := range r {
		if x.name == name {
			return x, nil
		}
	}
	return result{}, fmt.Errorf("no result of Benchmark%s", name)
}

// testBinary is the path of the built tests of a package.
func (b *bench) testBinary(pkg string) string {
	return filepath.Join(b.dir, strings.ReplaceAll(pkg, "/", "-")+".test")
}

// buildTests builds the tests of a package. Building is kept apart from running: nothing may be cached yet.
func (b *bench) buildTests(ctx context.Context, pkg string) error {
	cmd := exec.CommandContext(ctx, "go", "test", "-c", "-o", b.testBinary(pkg), "./"+pkg)
	cmd.Dir = b.root
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("build tests of %s: %w\n%s", pkg, err, out)
	}
	return nil
}

// goTest runs the tests of a package with arguments.
func (b *bench) goTest(ctx context.Context, pkg string, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, b.testBinary(pkg), args...)
	cmd.Dir = filepath.Join(b.root, pkg)
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	if err := cmd.Run(); err != nil {
		return out.String(), fmt.Errorf("run tests of %s: %w\n%s", pkg, errors.Join(err, ctx.Err()), tail(out.String()))
	}
	return out.String(), nil
}

// goBench runs benchmarks of a package.
func (b *bench) goBench(ctx context.Context, pkg, pattern, benchtime string) (results, error) {
	out, err := b.goTest(ctx, pkg, "-test.run=^$", "-test.bench="+pattern, "-test.benchtime="+benchtime)
	return parseBenchmarks(out), err
}

// parallelism is what the testing package adds to names on more than one CPU.
var parallelism = regexp.MustCompile(`-\d+$`)

// parseBenchmarks reads lines such as "BenchmarkX/a=1-2   100   123 ns/op   4.5 p99-ms". Output of the code
// under test may stand between a name and its values.
func parseBenchmarks(out string) results {
	var list results
	pending := ""
	for line := range strings.Lines(out) {
		fields := strings.Fields(line)
		if len(fields) == 0 {
			continue
		}
		if name, ok := strings.CutPrefix(fields[0], "Benchmark"); ok {
			pending = parallelism.ReplaceAllString(name, "")
			fields = fields[1:]
		}
		if values := parseValues(fields); pending != "" && values != nil {
			list = append(list, result{pending, values})
			pending = ""
		}
	}
	return list
}

// parseValues reads a number of iterations and pairs of value and unit; nil if the fields are something else.
func parseValues(fields []string) map[string]float64 {
	if len(fields) < 3 || len(fields)%2 == 0 {
		return nil
	}
	if _, err := strconv.Atoi(fields[0]); err != nil {
		return nil
	}
	values := map[string]float64{}
	for i := 1; i < len(fields); i += 2 {
		v, err := strconv.ParseFloat(fields[i], 64)
		if err != nil {
			return nil
		}
		values[fields[i+1]] = v
	}
	return values
}

// tail is the end of an output.
func tail(out string) string {
	const most = 2000
	if len(out) > most {
		return "…" + out[len(out)-most:]
	}
	return out
}
