package fdb_test

import (
	"fmt"
	"strings"

	"github.com/pawl-dev/pawl/fdb"
)

// A call is run by its arguments, and what it printed says what it did.
func ExampleJudge() {
	call := fdb.Exclude([]string{"locality_instance_id:storage-1", "10.1.1.1"}, false)
	call.ClusterFile = "/tmp/fdb.cluster"
	argv, kill := call.Arguments()
	fmt.Println(call.Tool(), strings.Join(argv, " "))
	fmt.Println("ended after", kill)

	version, _ := fdb.ParseVersion("7.3.69")
	result := fdb.Judge(call, version, 0, "",
		"  10.1.1.1(Whole machine)  ---- WARNING: Exclusion in progress! It is not safe to remove this machine from the cluster\n")
	fmt.Println(result.Outcome, result.Reason)
	// Output:
	// fdbcli --exec exclude locality_instance_id:storage-1 10.1.1.1 -C /tmp/fdb.cluster --timeout 40
	// ended after 1m20s
	// refused ExclusionInProgress
}
