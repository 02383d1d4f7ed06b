package clusters

import (
	"fmt"

	"github.com/pawl-dev/pawl/store/sql/db"
)

// Check reads all clusters, journal rows and events, and returns the number of
// clusters. note gets the error of each row.
func Check(s db.Session, note func(what string, err error)) (clusters int, err error) {
	err = s.Query(selectCluster+" ORDER BY id", nil, func(r db.Row) error {
		c, err := readCluster(r)
		clusters++
		note("cluster "+c.UUID, err)
		return nil
	})
	if err != nil {
		return clusters, err
	}
	if err := s.Query("SELECT id, "+rowTable.all+" FROM container_cluster_resource ORDER BY id", nil, func(r db.Row) error {
		from := reader{row: r}
		j := readRow(&from)
		note(fmt.Sprintf("journal row %d, key %s", j.ID, j.Key), from.err)
		return nil
	}); err != nil {
		return clusters, err
	}
	if err := s.Query("SELECT "+eventTable.all+" FROM cluster_event ORDER BY seq", nil, func(r db.Row) error {
		e, err := readEvent(r)
		note(fmt.Sprintf("event %d of clusters", e.Seq), err)
		return nil
	}); err != nil {
		return clusters, err
	}
	return clusters, nil
}
