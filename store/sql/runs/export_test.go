package runs

import (
	"github.com/pawl-dev/pawl/workflow/runstore"
)

// ListSQL returns the statement of a list, and its arguments.
func ListSQL(s *Store, q runstore.Query) (string, []any) {
	sql, w, err := s.listSQL(q)
	if err != nil {
		panic(err)
	}
	return sql, w.Args
}
