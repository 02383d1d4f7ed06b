package clusters

import (
	"context"
	"slices"

	"github.com/pawl-dev/pawl/cluster"
	"github.com/pawl-dev/pawl/store/sql/db"
)

// Reach implements cluster.Store.
func (c *Store) Reach(ctx context.Context, clusters []int64) (map[int64]cluster.Reach, error) {
	found := map[int64]cluster.Reach{}
	if len(clusters) == 0 {
		return found, ctx.Err()
	}
	err := c.m.Snapshot(ctx, func(s db.Session) error {
		clear(found)
		for some := range slices.Chunk(clusters, cluster.PageLimit) {
			var people, places db.Where
			people.Conditions = append(people.Conditions, db.In(&people, "cluster_id", some))
			if err := s.Query("SELECT cluster_id, username FROM container_cluster_details"+people.String(), people.Args, func(r db.Row) error {
				if name := r.Text(1); name != "" {
					found[r.Int(0)] = cluster.Reach{Username: name}
				}
				return nil
			}); err != nil {
				return err
			}
			places.And("kind = 'address' AND phase NOT IN ('gone', 'never_created', 'forgotten') AND provider_id <> ''")
			places.Conditions = append(places.Conditions, db.In(&places, "cluster_id", some))
			if err := s.Query("SELECT cluster_id, provider_id FROM container_cluster_resource"+places.String()+" ORDER BY id DESC", places.Args, func(r db.Row) error {
				one := found[r.Int(0)]
				one.AddressID = r.Text(1)
				found[r.Int(0)] = one
				return nil
			}); err != nil {
				return err
			}
		}
		return nil
	})
	return found, err
}
