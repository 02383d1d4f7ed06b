package backend

import "github.com/pawl-dev/pawl/store/sqlstore"

// Keys are where the store keeps the answers of repeated requests; false for memory.
func (s Store) Keys() (sqlstore.Keys, bool) {
	if keeps, ok := s.kept.(interface{ Keys() sqlstore.Keys }); ok {
		return keeps.Keys(), true
	}
	return sqlstore.Keys{}, false
}
