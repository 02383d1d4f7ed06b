package main

import (
	"encoding/xml"
	"errors"
	"io"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestMedian(t *testing.T) {
	for _, c := range []struct {
		values []float64
		want   float64
	}{
		{[]float64{7}, 7},
		{[]float64{9, 1, 5}, 5},
		{[]float64{4, 1, 3, 2}, 2.5},
		{[]float64{5, 5, 5, 1000, 5}, 5},
	} {
		if got := median(c.values); got != c.want {
			t.Errorf("median of %v is %v, want %v", c.values, got, c.want)
		}
	}
	if !math.IsNaN(median(nil)) {
		t.Error("the median of nothing is a number")
	}
	values := []float64{3, 1, 2}
	median(values)
	if !slices.Equal(values, []float64{3, 1, 2}) {
		t.Error("median sorted the values of its caller")
	}
}

func TestSummarise(t *testing.T) {
	got := summarise([]map[string]float64{{"a": 3, "b": 1}, {"a": 1}, {"a": 1234567.8}})
	if want := (spread{Median: 3, Low: 1, High: 1.23457e6}); got["a"] != want {
		t.Errorf("a: %+v, want %+v", got["a"], want)
	}
	if want := (spread{Median: 1, Low: 1, High: 1}); got["b"] != want {
		t.Errorf("b: %+v, want %+v", got["b"], want)
	}
}

func TestParse(t *testing.T) {
	got, err := parse([]byte(`{"store": "sqlite", "steps": 50, "runs": 200, "writesPerRun": 52, "succeeded": 100}`))
	if err != nil {
		t.Fatal(err)
	}
	if got["writesBeyondSteps"] != 2 || got["succeededShare"] != 0.5 || got["steps"] != 50 {
		t.Errorf("%v", got)
	}
	if _, ok := got["store"]; ok {
		t.Error("a word became a figure")
	}
	if _, err := parse([]byte("sqlite: 10 runs")); err == nil {
		t.Error("text was read as JSON")
	}
}

func TestParseBenchmarks(t *testing.T) {
	got, err := parseBenchmarks("goos: linux\nBenchmarkNext-2   \t    6404\t    180553 ns/op\t  119168 B/op\t     117 allocs/op\nBenchmarkPreview \t 26\t  43210000 ns/op\nPASS\n")
	if err != nil || got["NextMs"] != 0.180553 || got["PreviewMs"] != 43.21 || len(got) != 2 {
		t.Errorf("%v, %v", got, err)
	}
	if _, err := parseBenchmarks("PASS\n"); err == nil {
		t.Error("no benchmark, and no error")
	}
}

func TestNumber(t *testing.T) {
	for _, c := range []struct {
		format string
		v      float64
		want   string
	}{
		{"%.0f", 0, "0"}, {"%.0f", 999, "999"}, {"%.0f", 1000, "1,000"}, {"%.0f", 1234567.8, "1,234,568"},
		{"%.2f", 1234.5, "1,234.50"}, {"%.1f", -1000, "-1,000.0"}, {"%.0f", math.NaN(), "–"},
		{"%v", 0.25, "0.25"}, {"%v", 51000, "51,000"}, {"%v", 5, "5"}, {"%v", 1.1, "1.1"},
	} {
		if got := number(c.format, c.v); got != c.want {
			t.Errorf("number(%q, %v) is %q, want %q", c.format, c.v, got, c.want)
		}
	}
}

func TestVerdict(t *testing.T) {
	least := requirement{number: 2, what: "steps", format: "%.0f", gate: 24_000, aim: 60_000}
	most := requirement{number: 5, what: "time", format: "%.2f", gate: 3, aim: 1.8, sense: atMost}
	exact := requirement{number: 12, what: "writes", format: "%.2f", gate: 2, sense: exactly}
	for _, c := range []struct {
		requirement requirement
		value       float64
		want        result
		shortfall   string
	}{
		{least, 60_000, aimMet, ""},
		{least, 24_000, gateMet, "Requirement 2 keeps its gate and misses its aim (steps): 24,000 against 60,000, 60 % short."},
		{least, 18_000, missed, "Requirement 2 misses its gate (steps): 18,000 against 24,000, 25 % short."},
		{least, math.NaN(), notMeasured, ""},
		{most, 1.8, aimMet, ""},
		{most, 2.7, gateMet, "Requirement 5 keeps its gate and misses its aim (time): 2.70 against 1.8, 50 % over."},
		{most, 3.01, missed, "Requirement 5 misses its gate (time): 3.01 against 3, 0 % over."},
		{exact, 2, gateMet, ""},
		{exact, 3, missed, "Requirement 12 misses its gate (writes): 3.00 against 2."},
		{exact, 1, missed, "Requirement 12 misses its gate (writes): 1.00 against 2."},
		{requirement{number: 24, what: "beside it", format: "%.2f", sense: shown}, 26, noGate, ""},
		{requirement{number: 24, what: "beside it", format: "%.2f", sense: shown}, math.NaN(), notMeasured, ""},
	} {
		if got := c.requirement.verdict(c.value); got != c.want {
			t.Errorf("%s at %v: %s, want %s", c.requirement.what, c.value, got, c.want)
		}
		if got := c.requirement.shortfall(c.value); got != c.shortfall {
			t.Errorf("%s at %v:\n got %q\nwant %q", c.requirement.what, c.value, got, c.shortfall)
		}
	}
}

func TestFarthestFrom(t *testing.T) {
	values := map[string]float64{"a": 2, "b": 2, "c": 1.5, "none": math.NaN()}
	get := func(name string) float64 { return values[name] }
	if got := farthestFrom(2, "a", "b")(get); got != 2 {
		t.Errorf("all as they should be: %v", got)
	}
	if got := farthestFrom(2, "a", "c", "b")(get); got != 1.5 {
		t.Errorf("the one that is off is hidden: %v", got)
	}
	if got := farthestFrom(2, "none", "c")(get); !math.IsNaN(got) {
		t.Errorf("what was not measured is called %v", got)
	}
}

// Every requirement has a measure.
func TestDutiesAreComplete(t *testing.T) {
	known := map[string]bool{}
	for _, m := range plan(false) {
		if known[m.name] {
			t.Errorf("two measures are called %s", m.name)
		}
		known[m.name] = true
		if m.timeout <= 0 || m.group == "" {
			t.Errorf("%s has no time limit or no group", m.name)
		}
		if m.needs(fileVar) != (m.file != "" && len(m.prepare) > 0) {
			t.Errorf("%s: %s, file and prepare belong together", m.name, fileVar)
		}
	}
	for n := 1; n <= 47; n++ {
		if n > 12 && n < 21 || n > 27 && n < 31 || n > 33 && n < 41 { // numbers of container clusters begin at 21, those of Kubernetes at 31, those of Rollouts at 41
			continue
		}
		if !slices.ContainsFunc(requirements, func(d requirement) bool { return d.number == n }) {
			t.Errorf("requirement %d is not measured", n)
		}
	}
	for _, d := range requirements {
		for _, name := range d.from {
			if !known[name] {
				t.Errorf("requirement %d needs the measure %s, which the plan does not have", d.number, name)
			}
		}
		if d.aim != 0 && !(requirement{gate: d.gate, sense: d.sense}).meets(d.aim, d.gate) {
			t.Errorf("requirement %d: its aim %v does not reach its gate %v", d.number, d.aim, d.gate)
		}
	}
}

// Quick and full have the same measures: figures of one can replace the other.
func TestQuickPlan(t *testing.T) {
	full, quick := plan(false), plan(true)
	if len(full) != len(quick) {
		t.Fatalf("%d measures, quick %d", len(full), len(quick))
	}
	for i := range full {
		if full[i].name != quick[i].name {
			t.Errorf("measure %d is %s, quick %s", i, full[i].name, quick[i].name)
		}
	}
	if got := quick[0].command(); got != "pawl bench --store memory --runs 100" {
		t.Errorf("the quick command is %q", got)
	}
}

func TestChoose(t *testing.T) {
	all := plan(false)
	for _, c := range []struct {
		only string
		want []string
	}{
		{"kill", []string{"kill"}},
		{"10", []string{"kill"}},
		{"memory, kill", []string{"memory", "kill"}},
		{"river-sqlite", []string{"river-sqlite"}},
		{"7", []string{"sqlite", "sqlite-50", "sqlite-1000", "sqlite-former"}},
		{"sqlite", []string{"sqlite", "river-sqlite"}},
		{"42", []string{"rollout-requests-1000", "rollout-requests-3"}},
		{"45", []string{"rollout-next"}},
	} {
		got, err := choose(all, c.only)
		if err != nil {
			t.Errorf("%s: %v", c.only, err)
		}
		var names []string
		for _, m := range got {
			names = append(names, m.name)
		}
		if !slices.Equal(names, c.want) {
			t.Errorf("%s: %v, want %v", c.only, names, c.want)
		}
	}
	if got, err := choose(all, " "); err != nil || len(got) != len(all)-len(namesOf(all, "kubernetes"))-len(namesOf(all, "rollouts")) {
		t.Errorf("nothing chosen: %d of %d, %v", len(got), len(all), err)
	}
	if got, err := choose(all, "8"); err != nil || len(got) != 2 {
		t.Errorf("requirement 8 is chosen if it is named: %v, %v", got, err)
	}
	for _, bad := range []string{"postgress", "19", "sqlite,"} {
		if _, err := choose(all, bad); err == nil || !strings.Contains(err.Error(), "postgres") {
			t.Errorf("%q: %v, want an error that names the groups", bad, err)
		}
	}
}

func TestTable(t *testing.T) {
	table := table{left: []int{0}, head: []string{"who", "steps/s"}}
	table.add("Pawl", "1,000")
	table.add("µ", "7")
	const want = "| who  | steps/s |\n|------|--------:|\n| Pawl |   1,000 |\n| µ    |       7 |\n"
	if got := table.String(); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}

func TestUpdate(t *testing.T) {
	const page = "# Title\n<!-- begin: a -->\nold\n<!-- end: a -->\ntext\n<!-- begin: b -->\n<!-- end: b -->\n"
	got, err := update(page, "a", "new\n")
	if err != nil {
		t.Fatal(err)
	}
	if want := strings.Replace(page, "old", "new", 1); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
	again, err := update(got, "a", "new\n")
	if err != nil || again != got {
		t.Errorf("a second update changed the page (%v)", err)
	}
	if _, err := update(page, "c", ""); err == nil || !strings.Contains(err.Error(), "<!-- begin: c -->") {
		t.Errorf("no marker: %v", err)
	}
	if _, err := update("<!-- begin: a -->\nold", "a", ""); err == nil || !strings.Contains(err.Error(), "<!-- end: a -->") {
		t.Errorf("no end: %v", err)
	}
}

// The committed page has the markers of the program, and shows the figures of
// results.json.
func TestCommittedPageIsFresh(t *testing.T) {
	stored, err := load("results.json")
	if err != nil {
		t.Fatal(err)
	}
	if len(stored.Measures) == 0 {
		t.Fatal("results.json holds nothing: go -C bench run . -write")
	}
	dir := t.TempDir()
	page, err := os.ReadFile("README.md")
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "README.md"), page, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := write(dir, stored); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"README.md", "growth.svg"} {
		committed, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		written, err := os.ReadFile(filepath.Join(dir, name))
		if err != nil {
			t.Fatal(err)
		}
		if string(committed) != string(written) {
			t.Errorf("%s is not what results.json says: go -C bench run . -render", name)
		}
	}
}

func TestMerge(t *testing.T) {
	here, there := machine{CPU: "a", Cores: 2}, machine{CPU: "b", Cores: 2}
	old := results{Machine: here, Measures: map[string]series{"x": {Repetitions: 5}, "y": {Repetitions: 5}}}
	old.Machine.PostgreSQL = "15"
	got := merge(old, results{Machine: here, Measures: map[string]series{"y": {Repetitions: 1}}})
	if got.Measures["x"].Repetitions != 5 || got.Measures["y"].Repetitions != 1 || got.Machine.PostgreSQL != "15" {
		t.Errorf("%+v", got.Measures)
	}
	got = merge(old, results{Machine: there, Measures: map[string]series{"y": {Repetitions: 1}}})
	if len(got.Measures) != 1 {
		t.Errorf("figures of two machines are mixed: %+v", got.Measures)
	}
}

func TestRequirementTable(t *testing.T) {
	r := results{Measures: map[string]series{"sqlite": {Command: "pawl bench --store sqlite", Repetitions: 5, Values: map[string]spread{
		"stepsPerSecond": {Median: 45_000}, "syncsPerStep": {Median: 0.06},
	}}, "kill": {Command: "pawl bench --kill", Error: "exit status 1:\nno space"}}}
	text := requirementTable(r)
	for _, want := range []string{" 45,000 |", "| ≥ 24,000 |", " 0.0600 |", "**missed**", "not measured", "Kubernetes store"} {
		if !strings.Contains(text, want) {
			t.Errorf("%q is missing in\n%s", want, text)
		}
	}
	short := shortfallText(r)
	for _, want := range []string{"Requirement 2 keeps its gate and misses its aim", "Requirement 6 misses its gate", "`pawl bench --kill` failed: exit status 1:; no space"} {
		if !strings.Contains(short, want) {
			t.Errorf("%q is missing in\n%s", want, short)
		}
	}
	if strings.Contains(short, "Requirement 4") {
		t.Errorf("what was not measured is called a shortfall:\n%s", short)
	}
	if !failing(r, false) {
		t.Error("a measure that failed is no failure")
	}
	delete(r.Measures, "kill")
	if failing(r, false) || !failing(r, true) {
		t.Error("a missed gate fails with -strict only")
	}
}

func TestGrowthPlot(t *testing.T) {
	r := results{Measures: map[string]series{}}
	for i, atOnce := range growthAtOnce {
		for _, former := range growthFormer[:2] {
			r.Measures[growthName("sqlite", atOnce, former)] = series{Values: map[string]spread{"stepsPerSecond": {Median: float64(1000 * (i + 1))}}}
		}
	}
	lines, points := 0, 0
	for dec := xml.NewDecoder(strings.NewReader(growthPlot(r))); ; {
		token, err := dec.Token()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatalf("no XML: %v", err)
		}
		element, ok := token.(xml.StartElement)
		if !ok {
			continue
		}
		switch element.Name.Local {
		case "polyline":
			lines++
		case "circle":
			points++
			for _, a := range element.Attr {
				if v, err := strconv.ParseFloat(a.Value, 64); a.Name.Local != "fill" && (err != nil || math.IsNaN(v) || v < 0) {
					t.Errorf("a point at %s=%s", a.Name.Local, a.Value)
				}
			}
		}
	}
	if lines != 2 || points != 8 {
		t.Errorf("%d lines and %d points, want 2 and 8", lines, points)
	}
	empty := growthPlot(results{})
	if strings.Contains(empty, "NaN") || strings.Contains(empty, "<circle") {
		t.Error("without figures there are points")
	}
}

func TestCeiling(t *testing.T) {
	for v, want := range map[float64]float64{0: 1, 0.3: 0.32, 1: 1, 7: 8, 99: 100, 41_000: 60_000, 81_000: 100_000} {
		if got := ceilingOf(v); math.Abs(got-want) > 1e-9*want {
			t.Errorf("the ceiling of %v is %v, want %v", v, got, want)
		}
	}
}

func TestRun(t *testing.T) {
	var out strings.Builder
	if failed, err := run(t.Context(), options{root: "..", only: "kill", list: true}, &out, io.Discard); failed || err != nil {
		t.Fatal(failed, err)
	}
	if got := strings.Join(strings.Fields(out.String()), " "); got != "kill kill pawl bench --kill --store sqlite --runs 1000" {
		t.Errorf("-list: %q", got)
	}
	for want, o := range map[string]options{
		"go -C bench run .":  {root: t.TempDir()},
		"is no group":        {root: "..", only: "speed"},
		"no such file or di": {root: "..", only: "kill", dir: filepath.Join(t.TempDir(), "absent")},
	} {
		if _, err := run(t.Context(), o, io.Discard, io.Discard); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%+v: %v, want %q", o, err, want)
		}
	}
}

func TestLastLines(t *testing.T) {
	if got := lastLines("a\nb\nc\n", 2); got != "b; c" {
		t.Errorf("%q", got)
	}
	if got := lastLines("", 2); got != "" {
		t.Errorf("%q", got)
	}
}

// A shell script that stands in for pawl.
func fake(t *testing.T, script string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "program")
	if err := os.WriteFile(path, []byte("#!/bin/sh\n"+script), 0o755); err != nil {
		t.Fatal(err)
	}
	return path
}

// One measure fails, one hangs, and the others continue.
func TestRunnerGoesOn(t *testing.T) {
	calls := filepath.Join(t.TempDir(), "calls")
	dir := t.TempDir()
	var log strings.Builder
	r := runner{
		dir: dir, repetitions: 3, progress: &log,
		programs: map[string]string{
			"good":  fake(t, `echo x >>`+calls+`; n=$(wc -l <`+calls+`); echo "{\"stepsPerSecond\": $((n * 100)), \"store\": \"fake\"}"`),
			"bad":   fake(t, `echo "disk on fire" >&2; exit 3`),
			"hangs": fake(t, `sleep 60`),
			"talks": fake(t, `echo hello`),
		},
	}
	var all []measure
	for _, name := range []string{"bad", "good", "hangs", "talks"} {
		all = append(all, measure{name: name, program: name, group: "all", timeout: 10 * time.Second})
	}
	all[2].timeout = 50 * time.Millisecond
	got := r.run(t.Context(), all)
	if v := got["good"].Values["stepsPerSecond"]; v.Median != 200 || v.Low != 100 || v.High != 300 || got["good"].Repetitions != 3 {
		t.Errorf("good: %+v", got["good"])
	}
	for name, want := range map[string]string{"bad": "disk on fire", "hangs": "deadline", "talks": "JSON"} {
		if s := got[name]; !strings.Contains(s.Error, want) || s.Repetitions != 0 {
			t.Errorf("%s: %+v, want an error with %q", name, s, want)
		}
	}
	if strings.Count(log.String(), "disk on fire") != 1 {
		t.Errorf("what failed was tried again:\n%s", &log)
	}
}

// Measures that share a file each get a copy, and the file is created once.
func TestRunnerCopiesFiles(t *testing.T) {
	calls := filepath.Join(t.TempDir(), "calls")
	dir := t.TempDir()
	// program -o json --dsn FILE --dir DIR, or bench -o json --make FILE --dir DIR
	program := fake(t, `if [ "$4" = --make ]; then echo x >>`+calls+`; echo made >"$5"; echo '{}'; exit; fi
grep -q made "$5" || exit 1
echo used >"$5"; echo '{"stepsPerSecond": 1}'`)
	r := runner{dir: dir, repetitions: 2, progress: io.Discard, programs: map[string]string{"pawl": program}}
	m := measure{program: "pawl", group: "g", file: "f", timeout: 10 * time.Second, args: []string{"--dsn", fileVar}, prepare: []string{"--make", fileVar}}
	one, two := m, m
	one.name, two.name = "one", "two"
	for name, s := range r.run(t.Context(), []measure{one, two}) {
		if s.Error != "" || s.Repetitions != 2 {
			t.Errorf("%s: %+v", name, s)
		}
	}
	if created, err := os.ReadFile(calls); err != nil || string(created) != "x\n" {
		t.Errorf("the file was created %d times (%v)", len(created)/2, err)
	}
	if left, err := os.ReadDir(dir); err != nil || len(left) > 0 {
		t.Errorf("left behind: %v (%v)", left, err)
	}
}

func TestGuard(t *testing.T) {
	if err := guard(func() { (&pgtestHost{}).Fatalf("no %s", "binaries") }); err == nil || err.Error() != "no binaries" {
		t.Errorf("%v", err)
	}
	if err := guard(func() {}); err != nil {
		t.Errorf("%v", err)
	}
	order := ""
	h := &pgtestHost{}
	h.Cleanup(func() { order += "first" })
	h.Cleanup(func() { order += "last " })
	h.clean()
	h.clean()
	if order != "last first" {
		t.Errorf("cleaned in the order %q", order)
	}
}
