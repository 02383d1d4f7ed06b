package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"os"
	"slices"
	"strconv"
	"strings"
)

// results is the content of results.json: the data of all tables and of the plot.
type results struct {
	Machine  machine           `json:"machine"`
	Measures map[string]series `json:"measures"`
}

// series holds the repetitions of one measure.
type series struct {
	Command     string            `json:"command"`
	Taken       string            `json:"taken"` // day
	Commit      string            `json:"commit,omitempty"`
	Quick       bool              `json:"quick,omitempty"`
	Repetitions int               `json:"repetitions"`
	Values      map[string]spread `json:"values,omitempty"`
	Error       string            `json:"error,omitempty"`
}

// spread is the median, minimum and maximum of the repetitions.
type spread struct {
	Median float64 `json:"median"`
	Low    float64 `json:"low"`
	High   float64 `json:"high"`
}

// summarise combines the values of all repetitions by name.
func summarise(repetitions []map[string]float64) map[string]spread {
	byKey := map[string][]float64{}
	for _, r := range repetitions {
		for key, v := range r {
			byKey[key] = append(byKey[key], v)
		}
	}
	all := map[string]spread{}
	for key, values := range byKey {
		all[key] = spread{Median: round(median(values)), Low: round(slices.Min(values)), High: round(slices.Max(values))}
	}
	return all
}

// round keeps six significant digits; the rest is noise.
func round(v float64) float64 {
	text := strconv.FormatFloat(v, 'g', 6, 64)
	short, err := strconv.ParseFloat(text, 64)
	if err != nil {
		return v
	}
	return short
}

// median of the values; the mean of the two in the middle if their number is even.
func median(values []float64) float64 {
	if len(values) == 0 {
		return math.NaN()
	}
	sorted := slices.Sorted(slices.Values(values))
	half := len(sorted) / 2
	if len(sorted)%2 == 1 {
		return sorted[half]
	}
	return (sorted[half-1] + sorted[half]) / 2
}

// parse reads the numbers of a JSON object and adds derived ones.
func parse(output []byte) (map[string]float64, error) {
	var object map[string]any
	if err := json.Unmarshal(output, &object); err != nil {
		return nil, fmt.Errorf("its output is no JSON object: %w", err)
	}
	values := map[string]float64{}
	for key, v := range object {
		if n, ok := v.(float64); ok {
			values[key] = n
		}
	}
	if writes, ok := values["writesPerRun"]; ok {
		values["writesBeyondSteps"] = writes - values["steps"]
	}
	if succeeded, ok := values["succeeded"]; ok {
		values["succeededShare"] = succeeded / values["runs"]
	}
	return values, nil
}

// parseBenchmarks reads the milliseconds of each benchmark from the output of go test.
func parseBenchmarks(output string) (map[string]float64, error) {
	values := map[string]float64{}
	for line := range strings.Lines(output) {
		fields := strings.Fields(line)
		if len(fields) < 4 || fields[3] != "ns/op" {
			continue
		}
		ns, err := strconv.ParseFloat(fields[2], 64)
		if err != nil {
			return nil, fmt.Errorf("%q is no line of a benchmark: %w", line, err)
		}
		name, _, _ := strings.Cut(strings.TrimPrefix(fields[0], "Benchmark"), "-")
		values[name+"Ms"] = ns / 1e6
	}
	if len(values) == 0 {
		return nil, errors.New("go test printed no benchmark")
	}
	return values, nil
}

// value returns the median of a figure, NaN if there is none.
func (r results) value(name, key string) float64 {
	if v, ok := r.Measures[name].Values[key]; ok {
		return v.Median
	}
	return math.NaN()
}

// requirementValue returns the value of a requirement, NaN if a measure is missing.
func (r results) requirementValue(d requirement) float64 {
	get := func(name string) float64 { return r.value(name, d.key) }
	if d.of != nil {
		return d.of(get)
	}
	return get(d.from[0])
}

// merge replaces old measures by new ones. It drops the measures of another machine.
func merge(old, fresh results) results {
	if !old.Machine.same(fresh.Machine) {
		return fresh
	}
	merged := results{Machine: fresh.Machine, Measures: map[string]series{}}
	if merged.Machine.PostgreSQL == "" { // it was not started this time
		merged.Machine.PostgreSQL = old.Machine.PostgreSQL
	}
	for _, r := range []results{old, fresh} {
		for name, s := range r.Measures {
			merged.Measures[name] = s
		}
	}
	return merged
}

func load(path string) (results, error) {
	data, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return results{}, nil
	}
	if err != nil {
		return results{}, err
	}
	var r results
	if err := json.Unmarshal(data, &r); err != nil {
		return results{}, fmt.Errorf("%s: %w: remove it and measure again", path, err)
	}
	return r, nil
}

func (r results) save(path string) error {
	data, err := json.MarshalIndent(r, "", "\t")
	if err != nil {
		return err
	}
	return os.WriteFile(path, append(data, '\n'), 0o644)
}
