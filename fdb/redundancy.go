package fdb

// Redundancy is how many copies of the data the database keeps, and where. The zero value is Double.
type Redundancy string

const (
	Single        Redundancy = "single"
	Double        Redundancy = "double"
	Triple        Redundancy = "triple"
	ThreeDataHall Redundancy = "three_data_hall"
)

// redundancies has what each mode means: how many fault domains can be lost, how many must be there,
// how many copies of data and of logs are kept, and how many logs are recruited. Sources:
// foundationdb 7.3.69, fdbclient/ManagementAPI.actor.cpp, configForToken; fdb-kubernetes-operator
// 2.33.0, api/v1beta2/foundationdb_database_configuration.go.
var redundancies = map[Redundancy]struct{ tolerance, domains, storage, log, logs int }{
	Single:        {tolerance: 0, domains: 1, storage: 1, log: 1, logs: 3},
	Double:        {tolerance: 1, domains: 2, storage: 2, log: 2, logs: 3},
	Triple:        {tolerance: 2, domains: 3, storage: 3, log: 3, logs: 3},
	ThreeDataHall: {tolerance: 2, domains: 3, storage: 3, log: 4, logs: 4},
}

// orDefault returns the mode, or Double for none.
func (r Redundancy) orDefault() Redundancy {
	if r == "" {
		return Double
	}
	return r
}

// Known tells whether the operator knows the mode.
func (r Redundancy) Known() bool {
	_, known := redundancies[r.orDefault()]
	return known
}

// FaultTolerance returns how many fault domains can be lost without losing data; 0 for an unknown
// mode.
func (r Redundancy) FaultTolerance() int { return redundancies[r.orDefault()].tolerance }

// FaultDomains returns how many fault domains the mode needs, at least 1.
func (r Redundancy) FaultDomains() int { return max(1, redundancies[r.orDefault()].domains) }

// zones returns how many zones with room for data the mode needs before FoundationDB accepts it.
func (r Redundancy) zones() int {
	mode := redundancies[r.orDefault()]
	return max(1, mode.storage, mode.log)
}

// defaultLogs returns how many logs are recruited unless the configuration says so.
func (r Redundancy) defaultLogs() int { return max(3, redundancies[r.orDefault()].logs) }

// CoordinatorCount returns how many coordinators a database has.
func CoordinatorCount(r Redundancy, usableRegions int) int {
	if usableRegions > 1 || r == ThreeDataHall {
		return 9
	}
	return r.FaultDomains() + r.FaultTolerance()
}
