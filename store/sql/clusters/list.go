package clusters

import (
	"cmp"
	"context"
	"slices"

	"github.com/pawl-dev/pawl/cluster"
	"github.com/pawl-dev/pawl/store/sql/db"
)

// List implements cluster.Records. If the page does not include the end of the list, the
// total may be recentTTL old with regard to changes of other processes.
func (c *Store) List(ctx context.Context, q cluster.ClusterQuery) (page []cluster.Cluster, total int, err error) {
	if uuid := singleUUID(q); uuid != "" {
		err = c.m.Read(ctx, func(s db.Session) error {
			page = nil
			return s.Query(clusterSQL, []any{uuid}, func(r db.Row) error {
				found, err := readCluster(r)
				page = append(page, found)
				return err
			})
		})
		return page, len(page), err
	}
	w := listWhere(q)
	count := "SELECT count(*) FROM container_cluster" + w.String()
	key := listKey(count, w.Args)
	of := c.lists.of(q)
	known, changes := of.totals.get(key)
	start, begun := of.start(key, q)
	counted := false
	err = c.m.Snapshot(ctx, func(s db.Session) error {
		if page, err = readPage(s, w, q, start); err != nil {
			return err
		}
		if total = totalFromPage(q, len(page)); total >= 0 {
			return nil
		}
		if total = known; total >= max(len(page), 1) && (q.AfterID != 0 || total >= max(0, q.Offset)+len(page)) {
			return nil
		}
		n, err := db.FirstInt(s, count, w.Args)
		total, counted = int(n), true
		return err
	})
	if err == nil && counted {
		of.totals.put(key, total, changes)
	}
	if err == nil {
		of.rememberNext(key, q, page, begun)
	}
	return page, total, err
}

// singleUUID returns the id of the only cluster that a query can match; "": the query is
// another one. The controller makes such a query at each pass.
func singleUUID(q cluster.ClusterQuery) string {
	if !q.Scope.All || !q.WithDestroyed || q.Limit != 1 || q.Offset > 0 || q.AfterID != 0 || q.State != "" ||
		q.Name+q.Keyword+q.AccountID+q.Network != "" || len(q.DomainIDs) > 0 {
		return ""
	}
	return q.UUID
}

// totalFromPage returns the total if a page of this length shows it, else -1.
func totalFromPage(q cluster.ClusterQuery, page int) int {
	limit := cmp.Or(q.Limit, cluster.PageLimit)
	if offset := max(0, q.Offset); q.AfterID == 0 && (limit < 0 || page < limit) && (page > 0 || offset == 0) {
		return offset + page
	}
	return -1
}

// listWhere returns the conditions of a query.
func listWhere(q cluster.ClusterQuery) *db.Where {
	w := new(db.Where)
	limitTo(w, q.Scope)
	if q.State != "" {
		w.And("state = ?", string(q.State))
	} else if !q.WithDestroyed {
		w.And("state <> 'Destroyed'")
	}
	for _, equal := range [][2]string{{"uuid", q.UUID}, {"account_id", q.AccountID}, {"network_id", q.Network}} {
		if equal[1] != "" {
			w.And(equal[0]+" = ?", equal[1])
		}
	}
	if len(q.DomainIDs) > 0 {
		w.Conditions = append(w.Conditions, db.In(w, "domain_id", q.DomainIDs))
	}
	switch {
	case q.Name != "" && q.ExactName:
		w.And("name = ?", db.Plain(q.Name))
	case q.Name != "":
		w.And(`folded_name LIKE ? ESCAPE '\'`, containing(q.Name))
	}
	if q.Keyword != "" {
		pattern := containing(q.Keyword)
		w.And(`(folded_name LIKE ? ESCAPE '\' OR folded_description LIKE ? ESCAPE '\')`, pattern, pattern)
	}
	return w
}

// readPage reads a page. start is the last cluster before the page, if it is known.
func readPage(s db.Session, w *db.Where, q cluster.ClusterQuery, start listPosition) (page []cluster.Cluster, err error) {
	switch {
	case q.AfterID != 0:
		known := false
		if err := s.Query(`SELECT created FROM container_cluster WHERE id = $1`, []any{q.AfterID}, func(r db.Row) error {
			start, known = listPosition{r.Int(0), q.AfterID}, true
			return nil
		}); err != nil {
			return nil, err
		}
		if !known { // the cluster was removed: fall back to ids, which grow with time
			return readPart(s, w, q, q.Limit, "id "+behindSign(q)+" ?", q.AfterID)
		}
	case q.Offset <= 0:
		return readPart(s, w, q, q.Limit, "")
	case start.id == 0:
		// An index covers this query: it reads none of the skipped clusters.
		to := w.Clone()
		tail := to.Page(orderOf(q), q.Offset-1, 1)
		if err := s.Query("SELECT created, id FROM container_cluster"+to.String()+tail, to.Args, func(r db.Row) error {
			start = listPosition{r.Int(0), r.Int(1)}
			return nil
		}); err != nil || start.id == 0 {
			return nil, err // the list ends before the offset
		}
	}
	return readBehind(s, w, q, start)
}

// readBehind reads the page after a cluster: first the clusters with the same creation time,
// then the later ones. Each part is one range of an index, however long the list is.
// (With a pair comparison, SQLite would use only the time.)
func readBehind(s db.Session, w *db.Where, q cluster.ClusterQuery, start listPosition) ([]cluster.Cluster, error) {
	page, err := readPart(s, w, q, q.Limit, "created = ? AND id "+behindSign(q)+" ?", start.created, start.id)
	limit := cmp.Or(q.Limit, cluster.PageLimit)
	if err != nil || limit > 0 && len(page) >= limit {
		return page, err
	}
	if limit > 0 {
		limit -= len(page)
	}
	later, err := readPart(s, w, q, limit, "created "+behindSign(q)+" ?", start.created)
	if len(page) == 0 {
		return later, err
	}
	return append(page, later...), err
}

func behindSign(q cluster.ClusterQuery) string {
	if q.NewestFirst {
		return "<"
	}
	return ">"
}

func orderOf(q cluster.ClusterQuery) string {
	if q.NewestFirst {
		return "created DESC, id DESC"
	}
	return "created, id"
}

// readPart reads a page with one more condition; "" means no further condition.
func readPart(s db.Session, w *db.Where, q cluster.ClusterQuery, limit int, condition string, args ...any) (page []cluster.Cluster, err error) {
	one := w.Clone()
	if condition != "" {
		one.And(condition, args...)
	}
	tail := one.Page(orderOf(q), 0, cmp.Or(limit, cluster.PageLimit))
	var from reader
	err = s.Query(selectCluster+one.String()+tail, one.Args, func(r db.Row) error {
		if page == nil { // clusters are large: allocate once, so that append copies them rarely
			page = make([]cluster.Cluster, 0, min(uint(cmp.Or(limit, cluster.PageLimit)), pageCapacity))
			from.previous = make([]string, clusterTable.width())
		}
		page = append(page, cluster.Cluster{})
		return from.cluster(r, &page[len(page)-1])
	})
	return page, err
}

// pageCapacity is the initial capacity of a page.
const pageCapacity = 101

// Workers implements cluster.Store. One index covers the query.
func (c *Store) Workers(ctx context.Context, clusters []int64) (map[int64]int, error) {
	found := make(map[int64]int, len(clusters))
	err := c.liveNodes(ctx, clusters, "SELECT cluster_id, count(*) FROM container_cluster_vm_map", "role = 'worker'", " GROUP BY cluster_id", func() { clear(found) }, func(r db.Row) {
		found[r.Int(0)] = int(r.Int(1))
	})
	return found, err
}

// VMs implements cluster.Store, with an index as Workers does. A page has many short
// ids: all of them are parts of one string and of one slice.
func (c *Store) VMs(ctx context.Context, clusters []int64) (map[int64][]string, error) {
	type vmIDRange struct {
		cluster int64
		from    int // index of its first id
	}
	var text []byte
	var ends []int // ends of the ids in text
	var ranges []vmIDRange
	err := c.liveNodes(ctx, clusters, "SELECT cluster_id, vm_id FROM container_cluster_vm_map", "vm_id <> ''", " ORDER BY cluster_id, role, ordinal", func() { text, ends, ranges = nil, nil, nil }, func(r db.Row) {
		if id := r.Int(0); len(ranges) == 0 || ranges[len(ranges)-1].cluster != id {
			ranges = append(ranges, vmIDRange{id, len(ends)})
		}
		text = r.AppendText(text, 1)
		ends = append(ends, len(text))
	})
	if err != nil {
		return nil, err
	}
	whole, begin, ids := string(text), 0, make([]string, len(ends))
	for i, end := range ends {
		ids[i], begin = whole[begin:end], end
	}
	found := make(map[int64][]string, len(clusters))
	for i, one := range ranges {
		end := len(ids)
		if i+1 < len(ranges) {
			end = ranges[i+1].from
		}
		found[one.cluster] = ids[one.from:end:end]
	}
	return found, nil
}

// liveNodes reads the nodes of clusters that are not removed. again clears the results
// of the try before.
func (c *Store) liveNodes(ctx context.Context, clusters []int64, selects, which, tail string, again func(), each func(db.Row)) error {
	if len(clusters) == 0 {
		return ctx.Err()
	}
	return c.m.Snapshot(ctx, func(s db.Session) error {
		again()
		for some := range slices.Chunk(clusters, cluster.PageLimit) {
			var w db.Where
			w.And("removed IS NULL")
			w.And(which)
			w.Conditions = append(w.Conditions, db.In(&w, "cluster_id", some))
			if err := s.Query(selects+w.String()+tail, w.Args, func(r db.Row) error { each(r); return nil }); err != nil {
				return err
			}
		}
		return nil
	})
}
