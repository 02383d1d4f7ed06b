package fdb_test

import (
	"fmt"

	"github.com/pawl-dev/pawl/fdb"
)

// A database moves from one data center to another: five commands, each after the one before has
// taken effect.
func ExampleStages() {
	in := func(dc string) fdb.Configuration {
		return fdb.Configuration{
			RedundancyMode: fdb.Double, StorageEngine: "ssd-2", UsableRegions: 1,
			Regions: []fdb.Region{{Datacenters: []fdb.Datacenter{{ID: dc, Priority: 1}}}},
		}
	}
	for _, stage := range fdb.Stages(in("east"), in("west")) {
		fmt.Print("usable_regions=", stage.UsableRegions)
		for _, region := range stage.Normalized().Regions {
			fmt.Print(" ", region.Datacenters[0].ID, ":", region.Datacenters[0].Priority)
		}
		fmt.Println()
	}
	// Output:
	// usable_regions=1 east:1 west:-1
	// usable_regions=2 east:1 west:-1
	// usable_regions=2 west:1 east:-1
	// usable_regions=1 west:1 east:-1
	// usable_regions=1 west:1
}

func ExampleChangeOf() {
	running, _ := fdb.ParseVersion("7.3.79")
	desired, _ := fdb.ParseVersion("7.4.6")
	change := fdb.ChangeOf(running, desired)
	fmt.Println("upgrade:", change.Upgrade, "all at once:", change.Incompatible)
	// Output: upgrade: true all at once: true
}
