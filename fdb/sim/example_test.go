package sim_test

import (
	"fmt"
	"time"

	"github.com/pawl-dev/pawl/fdb"
	"github.com/pawl-dev/pawl/fdb/sim"
)

func Example() {
	connection, _ := fdb.ParseConnection("sample:first@10.1.0.1:4501")
	version, _ := fdb.ParseVersion("7.3.69")
	c := sim.New(sim.Options{Seed: 1})
	for n, class := range []fdb.Class{fdb.ClassStorage, fdb.ClassLog, fdb.ClassStateless} {
		name := string(class) + "-1"
		c.Start(sim.Server{
			Name: name, Folder: name, Class: class, Version: version, Connection: connection,
			Addresses: []fdb.Address{{Host: fmt.Sprintf("10.1.0.%d", n+1), Port: 4501}},
			Locality:  map[string]string{fdb.InstanceLocality: name, fdb.ZoneLocality: name},
		})
	}
	c.Advance(5 * time.Second)
	a := c.Run(sim.Run{Argv: []string{"--exec", "configure new single ssd", "--timeout", "10"}, Version: version, Connection: connection})
	fmt.Print(a.Stdout)
	c.Advance(time.Minute)
	status, err := fdb.ParseStatus(c.Status(connection, version))
	if err != nil {
		panic(err)
	}
	fmt.Println(status.Cluster.RecoveryState.Name, len(status.Cluster.Processes))
	// Output:
	// Database created
	// fully_recovered 3
}
