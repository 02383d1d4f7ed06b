package main

import (
	"fmt"
	"math"
	"slices"
	"strings"
)

// sections are the generated parts of README.md, in the order they are printed.
func sections(r results) []section {
	return []section{
		{"machine", "Machine", machineText(r)},
		{"requirements", "Requirements", requirementTable(r)},
		{"shortfalls", "Shortfalls", shortfallText(r)},
		{"peers", "Side by side", peerTable(r) + "\n" + peerText(r)},
		{"growth", "Growth", growthTable(r)},
	}
}

type section struct{ name, title, text string }

func machineText(r results) string {
	m := r.Machine
	var b strings.Builder
	fmt.Fprintf(&b, "%s, %d cores, %.0f GiB of memory, %s, %s. ", m.CPU, m.Cores, m.MemoryGiB, m.Kernel, m.Go)
	fmt.Fprintf(&b, "Files on %s; one fdatasync after an append of 4 KiB takes %.0f µs (median of 200).", m.FileSystem, m.SyncMicros)
	if m.FileSystem == "tmpfs" {
		b.WriteString(" **This is memory, not a disk: no figure of a store holds. Use -dir.**")
	}
	if m.PostgreSQL != "" {
		fmt.Fprintf(&b, " PostgreSQL %s.", m.PostgreSQL)
	}
	fmt.Fprintf(&b, " River %s.\n", m.River)
	fmt.Fprintf(&b, "\n%s\n", takenText(r))
	return b.String()
}

// takenText returns the date, with a warning if the figures must not be quoted.
func takenText(r results) string {
	var days, commits []string
	quick := false
	for _, s := range r.Measures {
		if !slices.Contains(days, s.Taken) {
			days = append(days, s.Taken)
		}
		if s.Commit != "" && !slices.Contains(commits, s.Commit) {
			commits = append(commits, s.Commit)
		}
		quick = quick || s.Quick
	}
	if len(days) == 0 {
		return "Nothing has been measured yet."
	}
	slices.Sort(days)
	slices.Sort(commits)
	text := "Measured " + strings.Join(days, ", ")
	if len(commits) > 0 {
		text += " at " + strings.Join(commits, ", ")
	}
	text += "."
	if quick {
		text += " **With `-quick`: one repetition, a tenth of each size. These figures show that the programs work and are to be refreshed by a full run.**"
	}
	return text
}

func requirementTable(r results) string {
	t := table{left: []int{1, 5, 7}, head: []string{"#", "requirement", "measured", "gate", "aim", "verdict", "repetitions", "command"}}
	for _, d := range requirements {
		value := r.requirementValue(d)
		aim := ""
		if d.aim != 0 {
			aim = number("%v", d.aim)
		}
		s := r.Measures[d.from[0]]
		t.add(fmt.Sprint(d.number), d.what, number(d.format, value), d.gateText(), aim, string(d.verdict(value)), fmt.Sprint(s.Repetitions), "`"+commandOf(r, d.from[0])+"`")
	}
	return t.String()
}

func (d requirement) gateText() string {
	text := number("%v", d.gate)
	switch d.sense {
	case atLeast:
		return "≥ " + text
	case atMost:
		return "≤ " + text
	case shown:
		return ""
	}
	return text
}

func commandOf(r results, name string) string {
	if s, ok := r.Measures[name]; ok {
		return s.Command
	}
	for _, m := range plan(false) {
		if m.name == name {
			return m.command()
		}
	}
	return ""
}

// shortfallText lists each missed gate and aim, and each failed measure.
func shortfallText(r results) string {
	var lines []string
	for _, d := range requirements {
		if text := d.shortfall(r.requirementValue(d)); text != "" {
			lines = append(lines, "- "+text)
		}
	}
	for _, m := range plan(false) {
		if s, ok := r.Measures[m.name]; ok && s.Error != "" {
			lines = append(lines, "- `"+s.Command+"` failed: "+strings.ReplaceAll(s.Error, "\n", "; "))
		}
	}
	if len(lines) == 0 {
		return "Every requirement that was measured meets its gate and its aim.\n"
	}
	return strings.Join(lines, "\n") + "\n"
}

func peerTable(r results) string {
	t := table{left: []int{0, 1}, head: []string{"store", "who", "steps/s", "lowest – highest", "of the raw loop", "steps per CPU-second", "a run, p50 ms", "p99 ms", "alone, p50 ms"}}
	for _, store := range []struct{ title, name string }{{"SQLite", "sqlite"}, {"PostgreSQL", "postgres"}} {
		raw := r.value(store.name, "rawStepsPerSecond")
		t.add(store.title, "raw loop", number("%.0f", raw), spreadOf(r, store.name, "rawStepsPerSecond"), "1.00", "", "", "", "")
		for _, who := range []struct{ title, name string }{{"Pawl", store.name}, {"River " + r.Machine.River, "river-" + store.name}} {
			rate := r.value(who.name, "stepsPerSecond")
			t.add(store.title, who.title, number("%.0f", rate), spreadOf(r, who.name, "stepsPerSecond"), number("%.2f", rate/raw),
				number("%.0f", r.value(who.name, "stepsPerCPUSecond")), number("%.1f", r.value(who.name, "latencyP50Ms")),
				number("%.1f", r.value(who.name, "latencyP99Ms")), number("%.2f", r.value(who.name+"-alone", "latencyP50Ms")))
		}
	}
	return t.String()
}

func spreadOf(r results, name, key string) string {
	s, ok := r.Measures[name].Values[key]
	if !ok {
		return "–"
	}
	return number("%.0f", s.Low) + " – " + number("%.0f", s.High)
}

func peerText(r results) string {
	var parts []string
	for _, store := range []struct{ title, name string }{{"SQLite", "sqlite"}, {"PostgreSQL", "postgres"}} {
		if times := r.value(store.name, "stepsPerSecond") / r.value("river-"+store.name, "stepsPerSecond"); !math.IsNaN(times) {
			parts = append(parts, fmt.Sprintf("%s times on %s", number("%.1f", times), store.title))
		}
	}
	if len(parts) == 0 {
		return ""
	}
	return "Steps per second of Pawl against River: " + strings.Join(parts, ", ") + ".\n"
}

func growthTable(r results) string {
	t := table{left: []int{0}, head: []string{"store", "finished runs", "runs at once", "steps/s", "a run, p50 ms", "bytes per step", "WAL bytes per step", "resident peak, MiB"}}
	for _, store := range []struct{ title, name string }{{"SQLite", "sqlite"}, {"memory", "memory"}} {
		for _, former := range growthFormer {
			for _, atOnce := range growthAtOnce {
				name := growthName(store.name, atOnce, former)
				if _, ok := r.Measures[name]; !ok {
					continue
				}
				bytes, wal := number("%.0f", r.value(name, "bytesPerStep")), number("%.0f", r.value(name, "walBytesPerStep"))
				if store.name == "memory" { // writes nothing
					bytes, wal = "–", "–"
				}
				t.add(store.title, number("%.0f", float64(former)), number("%.0f", float64(atOnce)), number("%.0f", r.value(name, "stepsPerSecond")),
					number("%.2f", r.value(name, "latencyP50Ms")), bytes, wal, number("%.0f", r.value(name, "residentPeakMiB")))
			}
		}
	}
	return t.String()
}
