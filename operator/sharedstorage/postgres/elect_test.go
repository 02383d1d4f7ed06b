package postgres

import (
	"testing"

	"github.com/pawl-dev/pawl/operator/sharedstorage/port"
)

// Of the readers on other nodes the one that stands apart from the writer takes over, unless it would
// have to get much log before; with equal distance it is the one with the most log.
func TestElectHonoursTheSpread(t *testing.T) {
	const much = 20 << 20
	w := &Watcher{}
	for name, c := range map[string]struct {
		b, d     port.Domain // of readers b and d; a writes in zone=1,rack=1
		has      uint64      // how much more log b has
		timeline uint32      // how many timelines b is ahead
		want     string
	}{
		"no spread":                              {"", "", 1, 0, "b"},
		"both in the writer's zone":              {"zone=1,rack=1", "zone=1,rack=1", 1, 0, "b"},
		"one in another zone":                    {"zone=1,rack=1", "zone=2,rack=1", 1, 0, "d"},
		"one in another zone and rack":           {"zone=2,rack=1", "zone=2,rack=2", 1, 0, "d"},
		"both in another zone":                   {"zone=2,rack=2", "zone=3,rack=3", 1, 0, "b"},
		"the zone of a node is not known":        {"zone=1,rack=1", "", 1, 0, "b"},
		"one in another zone that is far behind": {"zone=1,rack=1", "zone=2,rack=1", much, 0, "b"},
		"one in another zone on an old timeline": {"zone=1,rack=1", "zone=2,rack=1", 0, 1, "b"},
	} {
		s := WatchState{Members: []WatchMember{
			{Member: port.Member{Name: "a", Node: "n1", Domain: "zone=1,rack=1"}},
			{Member: port.Member{Name: "b", Node: "n2", Domain: c.b}}, {Member: port.Member{Name: "d", Node: "n3", Domain: c.d}},
		}}
		seen := map[string]AgentStatus{"b": {}, "d": {}}
		b, d := seen["b"], seen["d"]
		b.Received, d.Received = 100+c.has, 100
		b.Timeline, d.Timeline = 1, 1
		for range c.timeline {
			b.Timeline++
		}
		seen["b"], seen["d"] = b, d
		for _, readers := range [][]string{{"b", "d"}, {"d", "b"}} {
			if got, err := w.elect(s, "a", readers, seen); got != c.want || err != nil {
				t.Errorf("%s: %q, %v, want %q", name, got, err, c.want)
			}
		}
	}
}
