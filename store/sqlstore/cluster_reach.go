package sqlstore

import (
	"context"
	"slices"

	"github.com/pawl-dev/pawl/cluster"
)

// Reach implements cluster.Store.
func (c *Clusters) Reach(ctx context.Context, clusters []int64) (map[int64]cluster.Reach, error) {
	found := map[int64]cluster.Reach{}
	if len(clusters) == 0 {
		return found, ctx.Err()
	}
	err := c.m.snapshot(ctx, func(s session) error {
		clear(found)
		for some := range slices.Chunk(clusters, cluster.PageLimit) {
			var people, places where
			people.conditions = append(people.conditions, in(&people, "cluster_id", some))
			if err := s.query("SELECT cluster_id, username FROM container_cluster_details"+people.String(), people.args, func(r row) error {
				if name := r.text(1); name != "" {
					found[r.int(0)] = cluster.Reach{Username: name}
				}
				return nil
			}); err != nil {
				return err
			}
			places.and("kind = 'address' AND phase NOT IN ('gone', 'never_created', 'forgotten') AND provider_id <> ''")
			places.conditions = append(places.conditions, in(&places, "cluster_id", some))
			if err := s.query("SELECT cluster_id, provider_id FROM container_cluster_resource"+places.String()+" ORDER BY id DESC", places.args, func(r row) error {
				one := found[r.int(0)]
				one.AddressID = r.text(1)
				found[r.int(0)] = one
				return nil
			}); err != nil {
				return err
			}
		}
		return nil
	})
	return found, err
}
