package sqlstore

import (
	"fmt"
)

// checkClusters reads all clusters, journal rows and events, and returns the number of
// clusters. note gets the error of each row.
func checkClusters(s session, note func(what string, err error)) (clusters int, err error) {
	err = s.query(selectCluster+" ORDER BY id", nil, func(r row) error {
		c, err := readCluster(r)
		clusters++
		note("cluster "+c.UUID, err)
		return nil
	})
	if err != nil {
		return clusters, err
	}
	if err := s.query("SELECT id, "+rowTable.all+" FROM container_cluster_resource ORDER BY id", nil, func(r row) error {
		from := reader{row: r}
		j := readRow(&from)
		note(fmt.Sprintf("journal row %d, key %s", j.ID, j.Key), from.err)
		return nil
	}); err != nil {
		return clusters, err
	}
	if err := s.query("SELECT "+eventTable.all+" FROM cluster_event ORDER BY seq", nil, func(r row) error {
		e, err := readEvent(r)
		note(fmt.Sprintf("event %d of clusters", e.Seq), err)
		return nil
	}); err != nil {
		return clusters, err
	}
	return clusters, nil
}
