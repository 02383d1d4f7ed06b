package fdb_test

import (
	"fmt"

	"github.com/pawl-dev/pawl/fdb"
)

// A gate says why it is closed and, where that can be known, for how long at least.
func ExampleOpen() {
	s, err := fdb.ParseStatus([]byte(`{
		"client": {"database_status": {"available": true}, "messages": []},
		"cluster": {"recovery_state": {"active_generations": 1, "seconds_since_last_recovered": 45}, "messages": []}
	}`))
	if err != nil {
		fmt.Println(err)
		return
	}
	running := fdb.Version{Major: 7, Minor: 3, Patch: 69}
	v := fdb.Open(fdb.GateExclude, s, fdb.Limits{}, running)
	fmt.Println(v.Open, v.Reason, v.In)
	fmt.Println(v.Message)
	// Output:
	// false RecoveredRecently 1m15s
	// the database must be recovered for 2m0s
}

// Three of four candidates, the two in one zone last.
func ExampleSpread() {
	var candidates []fdb.Candidate
	for id, zone := range map[string]string{"log-1": "a", "log-2": "a", "log-3": "b", "storage-1": "c"} {
		candidates = append(candidates, fdb.Candidate{ID: id, Locality: map[string]string{"zoneid": zone}})
	}
	selected, err := fdb.Spread(candidates, 3, []string{"zoneid"}, map[string]int{"zoneid": 1})
	for _, c := range selected {
		fmt.Println(c.ID)
	}
	fmt.Println(err)
	_, err = fdb.Spread(candidates, 4, []string{"zoneid"}, map[string]int{"zoneid": 1})
	fmt.Println(err)
	// Output:
	// log-1
	// log-3
	// storage-1
	// <nil>
	// FDB_TOO_FEW_CANDIDATES: only 3 of 4 could be selected from 4 candidates, with at most 1 in one zoneid
}
