// Program foundationdb measures the FoundationDB operator in the simulated world: calls, writes, CPU and
// memory at several sizes.
//
//	go -C bench run ./foundationdb --what steady --groups 24,100,300,1000
//
// The operator's own CPU is that of its passes without that of the calls into the simulated API server,
// database and sidecars. The virtual clock does not run in the meantime.
package main

import (
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
}

var measures = []measure{
	{"steady", "a pass over a settled cluster: at most 10 calls of Objects, no write, 0.1 ms of CPU a group", steady, []string{"groups", "calls of Objects", "status calls", "writes", "CPU a pass", "a group", "parsing", "a process"}},
	{"create", "the creation of a cluster: at most 3 writes a group and one a pass, 3 s of CPU at 1,000", create, []string{"groups", "passes", "calls", "writes", "writes a group", "CPU"}},
	{"knob", "a changed knob: at most 2 writes a pod, 1 recovery, 3 s of CPU at 1,000", knob, []string{"groups", "passes", "calls", "writes", "writes a pod", "recoveries", "CPU"}},
	{"status", "the size of the status with all conditions set: below 1 MB at 1,000", statusSize, []string{"groups", "bytes", "bytes a group"}},
	{"memory", "what the operator remembers of a settled cluster: at most 150 MiB at 1,000", memory, []string{"groups", "MiB more than with none"}},
	{"replace", "a failed group, from the moment it may be replaced until its successor serves", replace, []string{"groups", "passes", "virtual time"}},
	{"sim", "simulated days of a cluster in a second, without the operator: at least 1 at 100", simulate, []string{"groups", "days a second"}},
}

func main() {
	what := flag.String("what", "", "the measure: "+strings.Join(names(), ", ")+"; empty: all")
	groups := flag.String("groups", "24,100,300,1000", "the numbers of groups, separated by commas")
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
	var sizes []int
	for text := range strings.SplitSeq(groups, ",") {
		n, err := strconv.Atoi(strings.TrimSpace(text))
		if err != nil || n < 12 {
			return fmt.Errorf("--groups %q: numbers from 12 on, separated by commas", groups)
		}
		sizes = append(sizes, n)
	}
	for _, m := range measures {
		if what != "" && m.name != what {
			continue
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
