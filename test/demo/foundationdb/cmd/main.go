// Command foundationdb demonstrates FoundationDB clusters: see package foundationdb and `make demo-fdb`.
package main

import (
	"github.com/pawl-dev/pawl/test/demo/foundationdb"
	"github.com/pawl-dev/pawl/test/demo/stage"
)

func main() { stage.Main("demo-fdb", foundationdb.New) }
