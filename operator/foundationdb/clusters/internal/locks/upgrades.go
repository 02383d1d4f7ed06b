package locks

import (
	"context"

	"github.com/pawl-dev/pawl/fdb"
)

// Register tells the other operators which groups are ready for an upgrade.
func (c Client) Register(ctx context.Context, version string, groups []string) fdb.Result {
	keys := c.keys()
	return c.transact(ctx, []fdb.Range{keys.Upgrades(version)}, func(values fdb.Values) ([]fdb.Write, error) {
		var writes []fdb.Write
		for _, id := range groups {
			key := keys.Upgrade(version, id)
			if _, there := values.Get(key); !there {
				writes = append(writes, fdb.Set(key, []byte(id)))
			}
		}
		return writes, nil
	})
}

// Upgrade clears the list of an upgrade, unless groups are missing in it. It returns those.
func (c Client) Upgrade(ctx context.Context, version string, unregistered func(listed map[string]bool) []string) (missing []string, result fdb.Result) {
	keys := c.keys()
	result = c.transact(ctx, []fdb.Range{keys.Upgrades(version)}, func(values fdb.Values) ([]fdb.Write, error) {
		listed := map[string]bool{}
		for _, entry := range values {
			listed[fdb.GroupOf(entry.Key)] = true
		}
		if missing = unregistered(listed); len(missing) > 0 {
			return nil, nil
		}
		return []fdb.Write{fdb.Clear(keys.Upgrades(version))}, nil
	})
	return missing, result
}
