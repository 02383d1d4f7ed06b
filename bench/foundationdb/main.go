// Program foundationdb measures the FoundationDB operator: calls, writes, CPU and memory at several sizes.
//
//	go -C bench run ./foundationdb --what steady --groups 24,100,300,1000
//	make build controlplane && go -C bench run ./foundationdb --what rest
//
// Most measures take place in the simulated world. There the operator's own CPU is that of its passes without that of
// the calls into the simulated API server, database and sidecars, and the virtual clock does not run in the meantime.
// The measures rest and memory are of bin/pawl as a process, on a real API server (paper.go).
package main

import (
	"cmp"
	"flag"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"
)

// measure is one figure of the specification, section 16.
type measure struct {
	name  string
	about string
	run   func(groups int, row func(cells ...any)) error
	head  []string
	sizes string // without --groups; empty: 24,100,300,1000
}

var measures = []measure{
	{"steady", "a pass over a settled cluster: at most 10 calls of Objects, no write, 0.1 ms of CPU a group, at 1,000 12 times that at 100; parsing: 0.1 ms a process", steady, []string{"groups", "calls of Objects", "status calls", "writes", "CPU a pass", "a group", "against 100", "parsing", "a process"}, ""},
	{"create", "the creation of a cluster: at most 3 writes a group and one a pass, 3 s of CPU at 1,000", create, []string{"groups", "passes", "calls", "writes a group", "of the status", "others", "CPU"}, ""},
	{"knob", "a changed knob: at most 2 writes a pod, 1 recovery, 3 s of CPU at 1,000", knob, []string{"groups", "passes", "calls", "writes", "writes a pod", "recoveries", "CPU"}, ""},
	{"status", "the size of the status with all conditions set: below 1 MB at 1,000", statusSize, []string{"groups", "bytes", "bytes a group", "with the 16 that a group can have at once"}, ""},
	{"memory", "resident MiB of pawl operator with a cluster at rest, on a real API server: at most 150 more than with none at 1,000", process, []string{"groups", "without", "with", "more", "cores", "of its tools"}, "1000"},
	{"heap", "MiB that the operator remembers of a settled cluster", memory, []string{"groups", "MiB more than with none"}, ""},
	{"replace", "a failed group, from the moment it may be replaced until its successor serves", replace, []string{"groups", "passes", "virtual time"}, ""},
	{"rest", "100 clusters at rest, on a real API server: at most 0.05 cores, and no call but those of the looks", atRest, []string{"groups of each", "clusters", "cores", "of its tools", "resident MiB", "calls"}, "24"},
	{"sim", "simulated days of a cluster in a second, without the operator: at least 1 at 100", simulate, []string{"groups", "days a second"}, "100"},
}

// clustersAtRest is how many clusters are measured at rest.
var clustersAtRest int

func main() {
	what := flag.String("what", "", "the measure: "+strings.Join(names(), ", ")+"; empty: all")
	groups := flag.String("groups", "", "the numbers of groups, separated by commas (default: 24,100,300,1000, or that of the gate)")
	flag.IntVar(&clustersAtRest, "clusters", 100, "the number of clusters at rest")
	flag.Parse()
	if err := run(*what, *groups); err != nil {
		fmt.Fprintln(os.Stderr, "foundationdb:", err)
		os.Exit(1)
	}
}

func names() (all []string) {
	for _, m := range measures {
		all = append(all, m.name)
	}
	return all
}

func run(what, groups string) error {
	if what != "" && !slices.Contains(names(), what) {
		return fmt.Errorf("there is no measure %q: choose from %s", what, strings.Join(names(), ", "))
	}
	for _, m := range measures {
		if what != "" && m.name != what {
			continue
		}
		sizes, err := sizesOf(cmp.Or(groups, m.sizes, "24,100,300,1000"))
		if err != nil {
			return err
		}
		fmt.Printf("%s: %s\n", m.name, m.about)
		w := tabwriter.NewWriter(os.Stdout, 0, 0, 2, ' ', tabwriter.AlignRight)
		fmt.Fprintln(w, strings.Join(m.head, "\t")+"\t")
		for _, n := range sizes {
			if err := m.run(n, func(cells ...any) {
				for _, c := range cells {
					fmt.Fprintf(w, "%v\t", c)
				}
				fmt.Fprintln(w)
			}); err != nil {
				return fmt.Errorf("%s with %d groups: %w", m.name, n, err)
			}
		}
		_ = w.Flush()
		fmt.Println()
	}
	return nil
}

func sizesOf(groups string) (sizes []int, err error) {
	for text := range strings.SplitSeq(groups, ",") {
		n, err := strconv.Atoi(strings.TrimSpace(text))
		if err != nil || n < 12 {
			return nil, fmt.Errorf("--groups %q: numbers from 12 on, separated by commas", groups)
		}
		sizes = append(sizes, n)
	}
	return sizes, nil
}
