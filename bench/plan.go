package main

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
)

// measure is one command that prints JSON, executed several times.
type measure struct {
	name    string // in results.json
	group   string // measures of a group take turns, so that changes of the machine's load affect all of them
	program string // pawl, river, clusters, kubernetes, or go for benchmarks of a package
	args    []string
	file    string        // measures with the same name share one SQLite file, $FILE
	prepare []string      // commands that fill the file, executed once
	timeout time.Duration // of one execution
	optIn   bool          // run only if named: it needs the programs of `make controlplane`, and one run is as precise as five
}

// In the arguments $DSN is an empty PostgreSQL database, $FILE a SQLite file with finished
// runs.
const (
	dsnVar  = "$DSN"
	fileVar = "$FILE"
)

func (m measure) needs(variable string) bool { return slices.Contains(m.args, variable) }

// command returns the command line for the same figures.
func (m measure) command() string {
	switch m.program {
	case "pawl":
	case "go": // in the folder of Pawl
		return strings.Replace("go "+strings.Join(m.args, " "), "^$", "'^$'", 1)
	default:
		return "go run ./" + m.program + " " + strings.Join(m.args, " ")
	}
	return "pawl bench " + strings.Join(m.args, " ")
}

// The points of the growth table.
var (
	growthAtOnce = []int{1, 10, 100, 1000}
	growthFormer = []int{0, 10_000, 100_000}
)

const growthStep = 100 // concurrent runs of the longest series, which the memory store executes again each time

// plan lists the measures. Quick takes a tenth of every size.
func plan(quick bool) []measure {
	size := func(n int) string {
		if quick {
			n = max(n/10, 1)
		}
		return strconv.Itoa(n)
	}
	var all []measure
	add := func(group, name, program string, args ...string) {
		all = append(all, measure{name: name, group: group, program: program, args: args, timeout: 2 * time.Minute})
	}
	runs := []string{"--runs", size(1000)}
	add("memory", "memory", "pawl", append([]string{"--store", "memory"}, runs...)...)

	add("sqlite", "sqlite", "pawl", append([]string{"--store", "sqlite"}, runs...)...)
	add("sqlite", "river-sqlite", "river", append([]string{"--store", "sqlite"}, runs...)...)

	add("postgres", "postgres", "pawl", append([]string{"--store", "postgres", "--dsn", dsnVar}, runs...)...)
	add("postgres", "river-postgres", "river", append([]string{"--store", "postgres", "--dsn", dsnVar}, runs...)...)

	alone := []string{"--concurrency", "1", "--runs", size(200)}
	add("alone", "sqlite-alone", "pawl", append([]string{"--raw=false", "--store", "sqlite"}, alone...)...)
	add("alone", "postgres-alone", "pawl", append([]string{"--raw=false", "--store", "postgres", "--dsn", dsnVar}, alone...)...)
	add("alone", "river-sqlite-alone", "river", append([]string{"--store", "sqlite"}, alone...)...)
	add("alone", "river-postgres-alone", "river", append([]string{"--store", "postgres", "--dsn", dsnVar}, alone...)...)

	add("flows", "sqlite-50", "pawl", "--raw=false", "--store", "sqlite", "--runs", size(200), "--steps", "50")
	add("flows", "sqlite-1000", "pawl", "--raw=false", "--store", "sqlite", "--runs", size(100), "--steps", "1000")
	add("flows", "sqlite-former", "pawl", append([]string{"--raw=false", "--store", "sqlite", "--former", size(10_000)}, runs...)...)

	add("waiting", "waiting", "pawl", "--store", "sqlite", "--waiting", size(100_000), "--signal", size(1000))
	for _, n := range severalWorkers {
		add("workers", workersName(n), "pawl", "--store", "postgres", "--dsn", dsnVar, "--workers", strconv.Itoa(n), "--runs", size(4000))
	}
	add("reading", "reading", "pawl", "--store", "sqlite", "--reading", "--steps", size(10_000))
	add("reading", "reading-postgres", "pawl", "--store", "postgres", "--dsn", dsnVar, "--reading", "--steps", size(10_000))
	add("kill", "kill", "pawl", append([]string{"--kill", "--store", "sqlite"}, runs...)...)
	for _, m := range clusterMeasures {
		add("clusters", "clusters-"+m.what, "clusters", "--what", m.what, "--clusters", size(m.clusters))
		all[len(all)-1].timeout = 5 * time.Minute // it first creates ten thousand clusters
	}
	for _, m := range kubernetesMeasures(size) {
		add("kubernetes", m.name, "kubernetes", m.args...)
		all[len(all)-1].optIn, all[len(all)-1].timeout = true, 30*time.Minute
	}
	for _, m := range rolloutMeasures(size) {
		add("rollouts", m.name, "kubernetes", m.args...)
		all[len(all)-1].optIn, all[len(all)-1].timeout = true, 2*time.Hour
	}
	add("rollouts", "rollout-next", "go", "test", "-run", "^$", "-bench", ".", "./rollout")
	all[len(all)-1].optIn, all[len(all)-1].timeout = true, 10*time.Minute
	return append(all, growth(size)...)
}

// rolloutMeasures returns the measures of Rollouts on a real control plane.
func rolloutMeasures(size func(int) string) []measure {
	one := []string{"--what", "rollout", "--rollouts", "1", "--pods"}
	return []measure{
		{name: "rollout-delay", args: []string{"--what", "rollout", "--rollouts", size(50), "--pods", "20", "--batches", "10"}},
		{name: "rollout-delay-start", args: []string{"--what", "rollout", "--rollouts", size(50), "--pods", "20", "--batches", "10", "--start", "5s", "--alone"}},
		{name: "rollout-requests-1000", args: append(slices.Clone(one), size(1000), "--batches", size(100))},
		{name: "rollout-requests-3", args: append(slices.Clone(one), "3")},
		{name: "rollouts-idle", args: []string{"--what", "rollouts-idle", "--rollouts", size(1000)}},
		{name: "rollout-moving", args: []string{"--what", "rollout", "--rollouts", size(1000), "--pods", "3", "--moving", size(100)}},
		{name: "rollout-growth", args: []string{"--what", "rollout-growth", "--rollouts", size(100)}},
		{name: "rollout-hanging", args: []string{"--what", "rollout", "--rollouts", size(50), "--hanging", size(200)}},
	}
}

// severalWorkers are the numbers of workers that share a PostgreSQL.
var severalWorkers = []int{4, 16}

func workersName(n int) string { return fmt.Sprintf("workers-%d", n) }

// kubernetesMeasures returns the measures on a real API server.
func kubernetesMeasures(size func(int) string) []measure {
	all := []measure{
		{name: "kubernetes-run", args: []string{"--what", "step", "--kind", "Run", "--runs", size(1000)}},
		{name: "kubernetes-configmap", args: []string{"--what", "step", "--kind", "ConfigMap", "--runs", size(1000)}},
	}
	for _, n := range growthPoints {
		all = append(all, measure{name: fmt.Sprintf("kubernetes-ready-%d", n), args: []string{"--what", "ready", "--clusters", strconv.Itoa(n)}})
	}
	return append(all,
		measure{name: "kubernetes-idle", args: []string{"--what", "idle", "--clusters", size(1000)}},
		measure{name: "kubernetes-cache", args: []string{"--what", "cache", "--runs", size(10_000)}})
}

// growthPoints are the numbers of clusters that start at once.
var growthPoints = []int{1, 10, 100}

// clusterMeasures are the measures of container clusters, with their numbers of clusters.
var clusterMeasures = []struct {
	what     string
	clusters int
}{{"list", 10_000}, {"sync", 10_000}, {"create", 100}, {"query", 100}, {"waiting", 10_000}, {"restart", 1_000}}

// growth returns measures for several numbers of concurrent runs and of finished runs. A
// SQLite file with finished runs is created once and copied. The memory store keeps
// nothing, so its longest series has one point only.
func growth(size func(int) string) []measure {
	var all []measure
	add := func(m measure) {
		m.group, m.program, m.timeout = "growth", "pawl", 5*time.Minute // the first one creates the file
		all = append(all, m)
	}
	for _, former := range growthFormer {
		for _, atOnce := range growthAtOnce {
			load := []string{"--concurrency", strconv.Itoa(atOnce), "--runs", size(min(max(500, 20*atOnce), 2000))}
			m := measure{name: growthName("sqlite", atOnce, former), args: append([]string{"--raw=false", "--store", "sqlite"}, load...)}
			if former > 0 {
				m.file = fmt.Sprintf("growth-%d", former)
				m.args = append(m.args, "--dsn", fileVar)
				m.prepare = []string{"--raw=false", "--store", "sqlite", "--dsn", fileVar, "--former", size(former), "--runs", "1"}
			}
			add(m)
			if former > growthFormer[1] && atOnce != growthStep {
				continue
			}
			m = measure{name: growthName("memory", atOnce, former), args: append([]string{"--store", "memory"}, load...)}
			if former > 0 {
				m.args = append(m.args, "--former", size(former))
			}
			add(m)
		}
	}
	return all
}

func growthName(store string, atOnce, former int) string {
	return fmt.Sprintf("growth-%s-%d-after-%d", store, atOnce, former)
}

// choose returns the measures that only names: groups, measures or requirement numbers,
// separated by commas. Empty: all but the opt-in ones.
func choose(all []measure, only string) ([]measure, error) {
	if strings.TrimSpace(only) == "" {
		return slices.DeleteFunc(slices.Clone(all), func(m measure) bool { return m.optIn }), nil
	}
	wanted := map[string]bool{}
	for word := range strings.SplitSeq(only, ",") {
		names := namesOf(all, strings.TrimSpace(word))
		if len(names) == 0 {
			return nil, fmt.Errorf("-only: %q is no group (%s), no measure and no number of a measured requirement", word, strings.Join(groups(all), ", "))
		}
		for _, name := range names {
			wanted[name] = true
		}
	}
	return slices.DeleteFunc(slices.Clone(all), func(m measure) bool { return !wanted[m.name] }), nil
}

func namesOf(all []measure, word string) []string {
	var names []string
	for _, m := range all {
		if m.group == word || m.name == word {
			names = append(names, m.name)
		}
	}
	for _, d := range requirements {
		if strconv.Itoa(d.number) == word {
			names = append(names, d.from...)
		}
	}
	return names
}

func groups(all []measure) []string {
	var names []string
	for _, m := range all {
		if !slices.Contains(names, m.group) {
			names = append(names, m.group)
		}
	}
	return names
}
