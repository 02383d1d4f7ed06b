package sqlstore

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/pawl-dev/pawl/cluster"
	"github.com/pawl-dev/pawl/machine"
)

// limitTo restricts the query to what a caller may see. The zero Scope matches nothing.
func limitTo(w *where, s cluster.Scope) {
	if s.All {
		return
	}
	var either []string
	if s.AccountID != "" {
		either = append(either, "account_id = "+w.arg(s.AccountID))
	}
	if len(s.DomainIDs) > 0 {
		either = append(either, in(w, "domain_id", s.DomainIDs))
	}
	if either == nil {
		either = []string{"1 = 0"}
	}
	w.conditions = append(w.conditions, "("+strings.Join(either, " OR ")+")")
}

// containing returns the LIKE pattern of a text within another; both are in lower case.
func containing(text string) string {
	return "%" + strings.NewReplacer(`\`, `\\`, "%", `\%`, "_", `\_`).Replace(strings.ToLower(plain(text))) + "%"
}

var (
	selectCluster = "SELECT id, " + clusterTable.all + " FROM container_cluster"
	selectNode    = "SELECT id, " + nodeTable.all + " FROM container_cluster_vm_map"
	selectRow     = "SELECT id, " + rowTable.all + " FROM container_cluster_resource"

	// Statements of one cluster. They are built once.
	clusterSQL    = selectCluster + " WHERE uuid = $1"
	nodesOfSQL    = selectNode + " WHERE cluster_id = $1 AND removed IS NULL"
	rowsOfSQL     = selectRow + " WHERE cluster_id = $1"
	nodesAmongSQL = selectNode + " WHERE cluster_id BETWEEN $1 AND $2 AND removed IS NULL"
	rowsAmongSQL  = selectRow + " WHERE cluster_id BETWEEN $1 AND $2"
	detailsIDSQL  = "SELECT id FROM container_cluster WHERE uuid = $1"
	selectDetails = "SELECT " + detailsTable.all + " FROM container_cluster_details WHERE cluster_id = $1"
)

// Record implements cluster.Records. It reads one snapshot.
func (c *Clusters) Record(ctx context.Context, uuid string) (*cluster.Record, error) {
	var b *cluster.Record
	err := c.m.snapshot(ctx, func(s session) error {
		b = nil
		if err := s.query(clusterSQL, []any{uuid}, func(r row) (err error) {
			b = new(cluster.Record)
			b.Cluster, err = readCluster(r)
			return err
		}); err != nil || b == nil {
			return err
		}
		return fillRecord(s, b)
	})
	if err == nil && b == nil {
		err = cluster.NotFound.Errorf("no cluster has the id %q", uuid)
	}
	return b, err
}

// scratch holds the nodes and journal rows of one record until their number is known.
// They are large, and records are read often, so the memory is reused.
type scratch struct {
	nodes []cluster.Node
	rows  []cluster.JournalRow
	node  reader
	row   reader
}

var scratches = sync.Pool{New: func() any {
	return &scratch{node: reader{previous: make([]string, nodeTable.width())}, row: reader{previous: make([]string, rowTable.width())}}
}}

// fillRecord reads the nodes and the journal of a cluster.
func fillRecord(s session, b *cluster.Record) error {
	of := scratches.Get().(*scratch)
	defer func() {
		clear(of.nodes)
		clear(of.rows)
		of.nodes, of.rows = of.nodes[:0], of.rows[:0]
		of.node.row, of.row.row = nil, nil
		scratches.Put(of)
	}()
	id := []any{b.Cluster.ID}
	if err := s.query(nodesOfSQL, id, func(r row) error {
		of.node.reset(r)
		of.nodes = append(of.nodes, of.node.node())
		return nil
	}); err != nil {
		return err
	}
	if err := s.query(rowsOfSQL, id, func(r row) error {
		of.row.reset(r)
		of.rows = append(of.rows, readRow(&of.row))
		return of.row.err
	}); err != nil {
		return err
	}
	b.Nodes = ordered(of.nodes, func(n *cluster.Node) int64 { return n.ID })
	b.Journal = ordered(of.rows, func(r *cluster.JournalRow) int64 { return r.ID })
	return nil
}

// ordered copies records into the order of their ids, for which there is no index. It
// copies each record once.
func ordered[T any](records []T, id func(*T) int64) []T {
	if len(records) == 0 {
		return nil
	}
	var buf [64]int
	indexes := buf[:0]
	for i := range records {
		indexes = append(indexes, i)
	}
	slices.SortFunc(indexes, func(a, b int) int { return cmp.Compare(id(&records[a]), id(&records[b])) })
	list := make([]T, len(records))
	for i, index := range indexes {
		list[i] = records[index]
	}
	return list
}

// fillRecords reads the nodes and the journals of clusters that are in the order of
// their ids.
func fillRecords(s session, list []*cluster.Record) error {
	first, last := list[0].Cluster.ID, list[len(list)-1].Cluster.ID
	of := map[int64]*cluster.Record{}
	for _, b := range list {
		of[b.Cluster.ID] = b
	}
	err := s.query(nodesAmongSQL, []any{first, last}, func(r row) error {
		if b := of[r.int(1)]; b != nil {
			b.Nodes = append(b.Nodes, readNode(r))
		}
		return nil
	})
	if err != nil {
		return err
	}
	err = s.query(rowsAmongSQL, []any{first, last}, func(r row) error {
		b := of[r.int(1)]
		if b == nil {
			return nil
		}
		from := reader{row: r}
		b.Journal = append(b.Journal, readRow(&from))
		return from.err
	})
	for _, b := range list { // there is no index for this order
		slices.SortFunc(b.Nodes, func(a, b cluster.Node) int { return cmp.Compare(a.ID, b.ID) })
		slices.SortFunc(b.Journal, func(a, b cluster.JournalRow) int { return cmp.Compare(a.ID, b.ID) })
	}
	return err
}

// Details implements cluster.Records. MASTER_KEY_MISSING, MASTER_KEY_UNKNOWN.
func (c *Clusters) Details(ctx context.Context, uuid string) (*cluster.Details, error) {
	var d *cluster.Details
	err := c.m.snapshot(ctx, func(s session) error {
		d = nil
		id, err := firstInt(s, detailsIDSQL, []any{uuid})
		if err != nil || id == 0 {
			return err
		}
		d = &cluster.Details{ClusterID: id, NetworkCleanup: true}
		return s.query(selectDetails, []any{id}, func(r row) (err error) {
			d, err = readDetails(c.encrypter, r)
			return err
		})
	})
	switch {
	case err != nil:
		return nil, err
	case d == nil:
		return nil, cluster.NotFound.Errorf("no cluster has the id %q", uuid)
	}
	return d, nil
}

// scanPage is how many records a scan reads at once.
const scanPage = 100

// Scan implements cluster.Store. The records of a page are from one snapshot. No
// transaction is open while visit runs.
func (c *Clusters) Scan(ctx context.Context, q cluster.ScanQuery, visit func(*cluster.Record) error) error {
	for after := q.AfterID; ; {
		list, err := c.scanPage(ctx, q, after)
		if err != nil {
			return err
		}
		for _, b := range list {
			if err := cmp.Or(ctx.Err(), visit(b)); err != nil {
				return err
			}
		}
		if len(list) < scanPage {
			return ctx.Err()
		}
		after = list[len(list)-1].Cluster.ID
	}
}

func (c *Clusters) scanPage(ctx context.Context, q cluster.ScanQuery, after int64) (list []*cluster.Record, err error) {
	var w where
	w.and("id > ?", after)
	if len(q.IDs) > 0 {
		w.conditions = append(w.conditions, in(&w, "id", q.IDs))
	}
	if q.Provider != "" {
		w.and("provider = ?", q.Provider)
	}
	if q.Zone != "" {
		w.and("zone_id = ?", q.Zone)
	}
	if len(q.States) > 0 {
		w.conditions = append(w.conditions, in(&w, "state", q.States))
	} else {
		w.and("state <> 'Destroyed'")
	}
	sql := selectCluster + w.String() + w.page("id", 0, scanPage)
	err = c.m.snapshot(ctx, func(s session) error {
		list = nil
		if err := s.query(sql, w.args, func(r row) error {
			found, err := readCluster(r)
			list = append(list, &cluster.Record{Cluster: found})
			return err
		}); err != nil || len(list) == 0 || q.ClustersOnly {
			return err
		}
		return fillRecords(s, list)
	})
	return list, err
}

// Nodes implements cluster.Store.
func (c *Clusters) Nodes(ctx context.Context, clusters []int64) (map[int64][]cluster.Node, error) {
	found := map[int64][]cluster.Node{}
	if len(clusters) == 0 {
		return found, ctx.Err()
	}
	err := c.m.snapshot(ctx, func(s session) error {
		clear(found)
		for some := range slices.Chunk(clusters, cluster.PageLimit) {
			sql, args := nodesOfSQL, []any{some[0]}
			if len(some) > 1 {
				var w where
				w.and("removed IS NULL")
				w.conditions = append(w.conditions, in(&w, "cluster_id", some))
				sql, args = selectNode+w.String(), w.args
			}
			if err := s.query(sql, args, func(r row) error {
				n := readNode(r)
				if found[n.ClusterID] == nil {
					found[n.ClusterID] = make([]cluster.Node, 0, 16)
				}
				found[n.ClusterID] = append(found[n.ClusterID], n)
				return nil
			}); err != nil {
				return err
			}
		}
		return nil
	})
	for _, nodes := range found {
		slices.SortFunc(nodes, func(a, b cluster.Node) int { return cmp.Compare(a.ID, b.ID) })
	}
	return found, err
}

// Unsettled implements cluster.Store.
func (c *Clusters) Unsettled(ctx context.Context, now time.Time, limit int) (uuids []string, err error) {
	var w where
	w.and("look_at <= ?", now.UnixNano())
	sql := "SELECT uuid FROM container_cluster" + w.String() + w.page("id + 0", 0, cmp.Or(limit, cluster.PageLimit)) // with a bare id, the database would scan the primary key
	err = c.m.read(ctx, func(s session) error {
		uuids = nil
		return s.query(sql, w.args, func(r row) error { uuids = append(uuids, r.text(0)); return nil })
	})
	return uuids, err
}

// Job implements cluster.Store. MASTER_KEY_MISSING, MASTER_KEY_UNKNOWN.
func (c *Clusters) Job(ctx context.Context, id string) (*cluster.Job, error) {
	var j *cluster.Job
	err := c.m.read(ctx, func(s session) error {
		return s.query("SELECT "+jobTable.all+" FROM job WHERE id = $1", []any{id}, func(r row) error {
			found, err := readJob(c.encrypter, r)
			j = &found
			return err
		})
	})
	switch {
	case err != nil:
		return nil, err
	case j == nil:
		return nil, cluster.JobNotFound.Errorf("no job has the id %q", id)
	}
	return j, nil
}

// Jobs implements cluster.Store. A password whose key is missing is left out:
// the list can be read all the same.
func (c *Clusters) Jobs(ctx context.Context, q cluster.JobQuery) (page []cluster.Job, total int, err error) {
	var w where
	limitTo(&w, q.Scope)
	if q.Cluster != "" {
		w.and("cluster = ?", q.Cluster)
	}
	if q.OnlyOpen {
		w.and("status = 0")
	}
	if q.Keyword != "" {
		w.and(`lower(command) LIKE ? ESCAPE '\'`, containing(q.Keyword))
	}
	err = c.m.snapshot(ctx, func(s session) error {
		n, err := firstInt(s, "SELECT count(*) FROM job"+w.String(), w.args)
		if err != nil {
			return err
		}
		page, total = nil, int(n)
		rest := w.clone()
		tail := rest.page("created DESC, number DESC", q.Offset, cmp.Or(q.Limit, cluster.PageLimit))
		return s.query("SELECT "+jobTable.all+" FROM job"+rest.String()+tail, rest.args, func(r row) error {
			j, err := readJob(c.encrypter, r)
			page = append(page, j)
			if errors.Is(err, MasterKeyMissing) || errors.Is(err, MasterKeyUnknown) {
				return nil
			}
			return err
		})
	})
	return page, total, err
}

// Events implements cluster.Store.
func (c *Clusters) Events(ctx context.Context, q cluster.EventQuery) (page []cluster.Event, err error) {
	var w where
	w.and("seq > ?", q.After)
	limitTo(&w, q.Scope)
	if q.Cluster != "" {
		w.and("cluster = ?", q.Cluster)
	}
	if len(q.Types) > 0 {
		w.conditions = append(w.conditions, in(&w, "type", q.Types))
	}
	sql := "SELECT " + eventTable.all + " FROM cluster_event" + w.String() + w.page("seq", 0, cmp.Or(q.Limit, cluster.PageLimit))
	err = c.m.read(ctx, func(s session) error {
		page = nil
		return s.query(sql, w.args, func(r row) error {
			e, err := readEvent(r)
			page = append(page, e)
			return err
		})
	})
	return page, err
}

var selectOwnedRow = "SELECT r.id, r." + strings.Join(rowTable.columns, ", r.") + `, c.uuid, c.name, c.provider, c.account_id, c.domain_id, c.state
	FROM container_cluster_resource r LEFT JOIN container_cluster c ON c.id = r.cluster_id`

// Rows implements cluster.Store. It returns a row whose cluster is gone without the
// cluster.
func (c *Clusters) Rows(ctx context.Context, q cluster.RowQuery) (page []cluster.OwnedRow, total int, err error) {
	err = c.m.snapshot(ctx, func(s session) error {
		page, total = nil, 0
		var w where
		if q.Cluster != "" {
			id, err := firstInt(s, `SELECT id FROM container_cluster WHERE uuid = $1`, []any{q.Cluster})
			if err != nil || id == 0 {
				return err
			}
			w.and("r.cluster_id = ?", id)
		}
		if len(q.Phases) > 0 {
			w.conditions = append(w.conditions, in(&w, "r.phase", q.Phases))
		}
		if q.Kind != "" {
			w.and("r.kind = ?", string(q.Kind))
		}
		n, err := firstInt(s, "SELECT count(*) FROM container_cluster_resource r"+w.String(), w.args)
		if err != nil {
			return err
		}
		total = int(n)
		tail := w.page("r.intent_at, r.id", q.Offset, cmp.Or(q.Limit, cluster.PageLimit))
		return s.query(selectOwnedRow+w.String()+tail, w.args, func(r row) error {
			from := reader{row: r}
			o := cluster.OwnedRow{JournalRow: readRow(&from)}
			o.Cluster, o.ClusterName, o.Provider = from.text(), from.text(), from.text()
			o.Owner = cluster.Owner{AccountID: from.text(), DomainID: from.text()}
			o.State = machine.State(from.text())
			page = append(page, o)
			return from.err
		})
	})
	return page, total, err
}

// Usage implements cluster.Store.
func (c *Clusters) Usage(ctx context.Context, o cluster.Owner) (u cluster.Usage, err error) {
	err = c.m.read(ctx, func(s session) error {
		return s.query(`SELECT count(*), CAST(coalesce(sum(node_count + control_count), 0) AS bigint), CAST(coalesce(sum(cores), 0) AS bigint),
			CAST(coalesce(sum(memory), 0) AS bigint) FROM container_cluster WHERE account_id = $1 AND state <> 'Destroyed'`, []any{o.AccountID}, func(r row) error {
			u = cluster.Usage{Clusters: int(r.int(0)), Nodes: int(r.int(1)), Cores: int(r.int(2)), MemoryMB: int(r.int(3))}
			return nil
		})
	})
	return u, err
}
