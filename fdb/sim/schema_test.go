package sim_test

import (
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/pawl-dev/pawl/fdb"
	"github.com/pawl-dev/pawl/fdb/sim"
)

// schema has what a status document may hold, by path.
type schema map[string]string

func readSchema(t *testing.T, line string) schema {
	t.Helper()
	text, err := os.ReadFile("testdata/schema.txt")
	if err != nil {
		t.Fatal(err)
	}
	s := schema{}
	for entry := range strings.Lines(string(text)) {
		words := strings.SplitN(strings.TrimSpace(entry), " ", 3)
		if words[0] == "#" || !slices.Contains(strings.Split(words[0], ","), line) {
			continue
		}
		s[words[1]] = words[2]
	}
	return s
}

// beyond are members that the programs write and the schema does not have. Source: foundationdb 7.3.69,
// fdbserver/Status.actor.cpp (processStatusFetcher, getStatusJSON of layers) and the class names of
// fdbrpc/Locality.cpp, of which the schema lists only some.
var beyond = map[string][]string{
	"cluster.processes.*.class_type": {"log", "router", "coordinator", "cluster_controller", "data_distributor", "ratekeeper", "resolution"},
}

// check compares a value with the schema.
func (s schema) check(path string, value any) (problems []string) {
	kind, known := s[path]
	if !known {
		if at := strings.LastIndex(path, "."); at >= 0 {
			if wild := path[:at] + ".*"; s[wild] != "" || s[path[:at]] == "map" {
				return s.check(wild, value)
			}
		}
		return []string{path + ": not in the schema"}
	}
	wrong := func() []string { return []string{fmt.Sprintf("%s: %v is no %s", path, value, kind)} }
	switch value := value.(type) {
	case map[string]any:
		if kind != "object" && kind != "map" {
			return wrong()
		}
		for _, name := range slices.Sorted(func(yield func(string) bool) {
			for name := range value {
				if !yield(name) {
					return
				}
			}
		}) {
			below := strings.TrimPrefix(path+"."+name, ".")
			if path == "." {
				below = name
			}
			if _, fixed := s[below]; kind == "map" && !fixed {
				below = path + ".*"
			}
			problems = append(problems, s.check(below, value[name])...)
		}
	case []any:
		if kind != "list" {
			return wrong()
		}
		for _, element := range value {
			if _, told := s[path+"[]"]; told {
				problems = append(problems, s.check(path+"[]", element)...)
			}
		}
	case string:
		list, enum := strings.CutPrefix(kind, "enum ")
		if kind != "text" && (!enum || !slices.Contains(strings.Split(list, "|"), value) && !slices.Contains(beyond[path], value)) {
			return wrong()
		}
	case bool:
		if kind != "boolean" {
			return wrong()
		}
	case float64:
		if kind != "number" {
			return wrong()
		}
	}
	return problems
}

// TestSchema: documents of all lines of versions, at different moments, are what the schema says.
func TestSchema(t *testing.T) {
	for _, text := range []string{"7.1.67", "7.3.69", "7.4.6"} {
		t.Run(text, func(t *testing.T) {
			s := readSchema(t, version(text).Short())
			f := newFixture(t, shape{options: sim.Options{Seed: 1}, version: text, storage: 5, log: 4, stateless: 5, test: 1})
			f.Connect(sim.Client{Address: "10.9.0.1:5000", LogGroup: "app", Versions: []fdb.Version{version("7.1.67"), version("7.3.69")}})
			look := func(when string) {
				t.Helper()
				var document any
				if err := json.Unmarshal(f.Status(f.Connection(), f.version), &document); err != nil {
					t.Fatalf("%s: %v", when, err)
				}
				for _, problem := range s.check(".", document) {
					t.Errorf("%s: %s", when, problem)
				}
			}
			look("before it is made")
			f.do("configure new double ssd")
			look("during a recovery")
			f.settle()
			look("healthy")
			f.do("maintenance on node-storage-1 600")
			f.do("exclude no_wait locality_instance_id:storage-2 10.1.0.9")
			f.Advance(3 * time.Second)
			look("excluded")
			f.Report("storage-3", "io_error")
			f.Cut("storage-4", true)
			look("with trouble")
			f.Stop("log-2")
			f.Stop("log-3")
			f.Advance(10 * time.Second)
			look("without logs")
			other := f.server(fdb.ClassStorage, 99)
			other.Version = version("6.3.24")
			f.Start(other)
			look("with another protocol")
			f.Inject(sim.Fault{Kind: sim.FaultStatusPartial})
			f.Inject(sim.Fault{Kind: sim.FaultStatusDoubled})
			for range 20 {
				look("partial and doubled")
			}
		})
	}
}
