package clusters

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
	"github.com/pawl-dev/pawl/store/sql/db"
	"github.com/pawl-dev/pawl/store/sql/secrets"
)

// limitTo restricts the query to what a caller may see. The zero Scope matches nothing.
func limitTo(w *db.Where, s cluster.Scope) {
	if s.All {
		return
	}
	var either []string
	if s.AccountID != "" {
		either = append(either, "account_id = "+w.Arg(s.AccountID))
	}
	if len(s.DomainIDs) > 0 {
		either = append(either, db.In(w, "domain_id", s.DomainIDs))
	}
	if either == nil {
		either = []string{"1 = 0"}
	}
	w.Conditions = append(w.Conditions, "("+strings.Join(either, " OR ")+")")
}

// containing returns the LIKE pattern of a text within another; both are in lower case.
func containing(text string) string {
	return "%" + strings.NewReplacer(`\`, `\\`, "%", `\%`, "_", `\_`).Replace(strings.ToLower(db.Plain(text))) + "%"
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
func (c *Store) Record(ctx context.Context, uuid string) (*cluster.Record, error) {
	var b *cluster.Record
	err := c.m.Snapshot(ctx, func(s db.Session) error {
		b = nil
		if err := s.Query(clusterSQL, []any{uuid}, func(r db.Row) (err error) {
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
func fillRecord(s db.Session, b *cluster.Record) error {
	of := scratches.Get().(*scratch)
	defer func() {
		clear(of.nodes)
		clear(of.rows)
		of.nodes, of.rows = of.nodes[:0], of.rows[:0]
		of.node.row, of.row.row = nil, nil
		scratches.Put(of)
	}()
	id := []any{b.Cluster.ID}
	if err := s.Query(nodesOfSQL, id, func(r db.Row) error {
		of.node.reset(r)
		of.nodes = append(of.nodes, of.node.node())
		return nil
	}); err != nil {
		return err
	}
	if err := s.Query(rowsOfSQL, id, func(r db.Row) error {
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
func fillRecords(s db.Session, list []*cluster.Record) error {
	first, last := list[0].Cluster.ID, list[len(list)-1].Cluster.ID
	of := map[int64]*cluster.Record{}
	for _, b := range list {
		of[b.Cluster.ID] = b
	}
	err := s.Query(nodesAmongSQL, []any{first, last}, func(r db.Row) error {
		if b := of[r.Int(1)]; b != nil {
			b.Nodes = append(b.Nodes, readNode(r))
		}
		return nil
	})
	if err != nil {
		return err
	}
	err = s.Query(rowsAmongSQL, []any{first, last}, func(r db.Row) error {
		b := of[r.Int(1)]
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
func (c *Store) Details(ctx context.Context, uuid string) (*cluster.Details, error) {
	var d *cluster.Details
	err := c.m.Snapshot(ctx, func(s db.Session) error {
		d = nil
		id, err := db.FirstInt(s, detailsIDSQL, []any{uuid})
		if err != nil || id == 0 {
			return err
		}
		d = &cluster.Details{ClusterID: id, NetworkCleanup: true}
		return s.Query(selectDetails, []any{id}, func(r db.Row) (err error) {
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
func (c *Store) Scan(ctx context.Context, q cluster.ScanQuery, visit func(*cluster.Record) error) error {
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

func (c *Store) scanPage(ctx context.Context, q cluster.ScanQuery, after int64) (list []*cluster.Record, err error) {
	var w db.Where
	w.And("id > ?", after)
	if len(q.IDs) > 0 {
		w.Conditions = append(w.Conditions, db.In(&w, "id", q.IDs))
	}
	if q.Provider != "" {
		w.And("provider = ?", q.Provider)
	}
	if q.Zone != "" {
		w.And("zone_id = ?", q.Zone)
	}
	if len(q.States) > 0 {
		w.Conditions = append(w.Conditions, db.In(&w, "state", q.States))
	} else {
		w.And("state <> 'Destroyed'")
	}
	sql := selectCluster + w.String() + w.Page("id", 0, scanPage)
	err = c.m.Snapshot(ctx, func(s db.Session) error {
		list = nil
		if err := s.Query(sql, w.Args, func(r db.Row) error {
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
func (c *Store) Nodes(ctx context.Context, clusters []int64) (map[int64][]cluster.Node, error) {
	found := map[int64][]cluster.Node{}
	if len(clusters) == 0 {
		return found, ctx.Err()
	}
	err := c.m.Snapshot(ctx, func(s db.Session) error {
		clear(found)
		for some := range slices.Chunk(clusters, cluster.PageLimit) {
			sql, args := nodesOfSQL, []any{some[0]}
			if len(some) > 1 {
				var w db.Where
				w.And("removed IS NULL")
				w.Conditions = append(w.Conditions, db.In(&w, "cluster_id", some))
				sql, args = selectNode+w.String(), w.Args
			}
			if err := s.Query(sql, args, func(r db.Row) error {
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
func (c *Store) Unsettled(ctx context.Context, now time.Time, limit int) (uuids []string, err error) {
	var w db.Where
	w.And("look_at <= ?", now.UnixNano())
	sql := "SELECT uuid FROM container_cluster" + w.String() + w.Page("id + 0", 0, cmp.Or(limit, cluster.PageLimit)) // with a bare id, the database would scan the primary key
	err = c.m.Read(ctx, func(s db.Session) error {
		uuids = nil
		return s.Query(sql, w.Args, func(r db.Row) error { uuids = append(uuids, r.Text(0)); return nil })
	})
	return uuids, err
}

// Job implements cluster.Store. MASTER_KEY_MISSING, MASTER_KEY_UNKNOWN.
func (c *Store) Job(ctx context.Context, id string) (*cluster.Job, error) {
	var j *cluster.Job
	err := c.m.Read(ctx, func(s db.Session) error {
		return s.Query("SELECT "+jobTable.all+" FROM job WHERE id = $1", []any{id}, func(r db.Row) error {
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
func (c *Store) Jobs(ctx context.Context, q cluster.JobQuery) (page []cluster.Job, total int, err error) {
	var w db.Where
	limitTo(&w, q.Scope)
	if q.Cluster != "" {
		w.And("cluster = ?", q.Cluster)
	}
	if q.OnlyOpen {
		w.And("status = 0")
	}
	if q.Keyword != "" {
		w.And(`lower(command) LIKE ? ESCAPE '\'`, containing(q.Keyword))
	}
	err = c.m.Snapshot(ctx, func(s db.Session) error {
		n, err := db.FirstInt(s, "SELECT count(*) FROM job"+w.String(), w.Args)
		if err != nil {
			return err
		}
		page, total = nil, int(n)
		rest := w.Clone()
		tail := rest.Page("created DESC, number DESC", q.Offset, cmp.Or(q.Limit, cluster.PageLimit))
		return s.Query("SELECT "+jobTable.all+" FROM job"+rest.String()+tail, rest.Args, func(r db.Row) error {
			j, err := readJob(c.encrypter, r)
			page = append(page, j)
			if errors.Is(err, secrets.MasterKeyMissing) || errors.Is(err, secrets.MasterKeyUnknown) {
				return nil
			}
			return err
		})
	})
	return page, total, err
}

// Events implements cluster.Store.
func (c *Store) Events(ctx context.Context, q cluster.EventQuery) (page []cluster.Event, err error) {
	var w db.Where
	w.And("seq > ?", q.After)
	limitTo(&w, q.Scope)
	if q.Cluster != "" {
		w.And("cluster = ?", q.Cluster)
	}
	if len(q.Types) > 0 {
		w.Conditions = append(w.Conditions, db.In(&w, "type", q.Types))
	}
	sql := "SELECT " + eventTable.all + " FROM cluster_event" + w.String() + w.Page("seq", 0, cmp.Or(q.Limit, cluster.PageLimit))
	err = c.m.Read(ctx, func(s db.Session) error {
		page = nil
		return s.Query(sql, w.Args, func(r db.Row) error {
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
func (c *Store) Rows(ctx context.Context, q cluster.RowQuery) (page []cluster.OwnedRow, total int, err error) {
	err = c.m.Snapshot(ctx, func(s db.Session) error {
		page, total = nil, 0
		var w db.Where
		if q.Cluster != "" {
			id, err := db.FirstInt(s, `SELECT id FROM container_cluster WHERE uuid = $1`, []any{q.Cluster})
			if err != nil || id == 0 {
				return err
			}
			w.And("r.cluster_id = ?", id)
		}
		if len(q.Phases) > 0 {
			w.Conditions = append(w.Conditions, db.In(&w, "r.phase", q.Phases))
		}
		if q.Kind != "" {
			w.And("r.kind = ?", string(q.Kind))
		}
		n, err := db.FirstInt(s, "SELECT count(*) FROM container_cluster_resource r"+w.String(), w.Args)
		if err != nil {
			return err
		}
		total = int(n)
		tail := w.Page("r.intent_at, r.id", q.Offset, cmp.Or(q.Limit, cluster.PageLimit))
		return s.Query(selectOwnedRow+w.String()+tail, w.Args, func(r db.Row) error {
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
func (c *Store) Usage(ctx context.Context, o cluster.Owner) (u cluster.Usage, err error) {
	err = c.m.Read(ctx, func(s db.Session) error {
		return s.Query(`SELECT count(*), CAST(coalesce(sum(node_count + control_count), 0) AS bigint), CAST(coalesce(sum(cores), 0) AS bigint),
			CAST(coalesce(sum(memory), 0) AS bigint) FROM container_cluster WHERE account_id = $1 AND state <> 'Destroyed'`, []any{o.AccountID}, func(r db.Row) error {
			u = cluster.Usage{Clusters: int(r.Int(0)), Nodes: int(r.Int(1)), Cores: int(r.Int(2)), MemoryMB: int(r.Int(3))}
			return nil
		})
	})
	return u, err
}
