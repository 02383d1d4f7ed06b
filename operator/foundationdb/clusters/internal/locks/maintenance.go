package locks

import (
	"context"
	"slices"
	"time"

	"github.com/pawl-dev/pawl/fdb"
)

// Maintain enters groups into the list of those that are under maintenance.
func (c Client) Maintain(ctx context.Context, groups []string) fdb.Result {
	keys := c.keys()
	return c.transact(ctx, nil, func(fdb.Values) ([]fdb.Write, error) {
		var writes []fdb.Write
		for _, id := range groups {
			writes = append(writes, fdb.Set(keys.Maintenance(id), fdb.EncodeMaintenance(c.Now)))
		}
		return writes, nil
	})
}

// TidyMaintenance drops the entries of the list that are finished or stale.
func (c Client) TidyMaintenance(ctx context.Context, judge func(entries map[string]time.Time) fdb.MaintenanceVerdict) (verdict fdb.MaintenanceVerdict, result fdb.Result) {
	keys := c.keys()
	result = c.transact(ctx, []fdb.Range{keys.MaintenanceList()}, func(values fdb.Values) ([]fdb.Write, error) {
		entries := map[string]time.Time{}
		for _, entry := range values {
			at, err := fdb.DecodeMaintenance(entry.Value)
			if err != nil {
				return nil, err
			}
			entries[fdb.GroupOf(entry.Key)] = at
		}
		verdict = judge(entries)
		var writes []fdb.Write
		for _, id := range slices.Concat(verdict.Finished, verdict.Stale) {
			writes = append(writes, fdb.Clear(fdb.SingleKey(keys.Maintenance(id))))
		}
		return writes, nil
	})
	return verdict, result
}
