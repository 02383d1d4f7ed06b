package sim_test

import (
	"strings"
	"testing"

	"github.com/pawl-dev/pawl/fdb"
	"github.com/pawl-dev/pawl/fdb/sim"
)

// FuzzCommands: no text of --exec makes the model panic or hang, and what fdb.ParseCommands refuses is
// malformed here too.
func FuzzCommands(f *testing.F) {
	for _, seed := range []string{
		"status json", "exclude no_wait 10.1.0.2", "configure new double ssd", "get \\xff/coordinators", "kill; kill 10.1.0.2:4501; sleep 5",
		"begin; set a b; commit", "\"a", "\\", "a;;b", "configure regions=[{\\\"datacenters\\\":[]}]", "coordinators description=x", "maintenance on z -1",
		"getrange \\x00 \\xff 3", "option on TIMEOUT 5", "sleep 0",
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		c := newFixture(t, shape{options: sim.Options{Seed: 1, Shards: 2}, storage: 3, log: 1, stateless: 1})
		a := c.Run(sim.Run{Argv: []string{"--exec", text, "--timeout", "5"}, Version: c.version, Connection: c.first})
		if _, err := fdb.ParseCommands(text); err != nil && !strings.Contains(text, `\u`) && a.Exit == 0 {
			t.Errorf("%q: %v, and exit 0\n%s%s", text, err, a.Stdout, a.Stderr)
		}
		if _, err := fdb.ParseStatus(c.Status(c.first, c.version)); err != nil {
			t.Errorf("%q: %v", text, err)
		}
	})
}
