package clusters

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/jackc/pgx/v5/pgconn"
	"zombiezen.com/go/sqlite"

	"github.com/pawl-dev/pawl/cluster"
	"github.com/pawl-dev/pawl/fault"
	"github.com/pawl-dev/pawl/store/sql/db"
	"github.com/pawl-dev/pawl/store/sql/secrets"
)

// Commit implements cluster.Records. On SQLite it shares its transaction with other
// pending writes, but succeeds or fails as a whole.
func (c *Store) Commit(ctx context.Context, change *cluster.Change) error {
	w := commit{encrypter: c.encrypter, change: change}
	if change.Cluster != nil {
		// also after an error: it may be unknown whether the change was committed
		defer c.lists.changed(change.Cluster.ID == 0 || change.Cluster.State == cluster.Destroyed)
	}
	if err := db.RetryStale(func() error { return w.try(ctx, c.m) }); err != nil {
		return nameTaken(change.Cluster, invalidValue(err))
	}
	w.fillIn()
	return nil
}

// invalidValue turns the error of a value that does not fit its column into
// ClusterInvalid.
func invalidValue(err error) error {
	var pg *pgconn.PgError
	switch {
	case errors.As(err, &pg) && strings.HasPrefix(pg.Code, "22"), sqlite.ErrCode(err) == sqlite.ResultConstraintCheck:
		return cluster.ClusterInvalid.Errorf("a value does not fit its column: %w", err)
	}
	return err
}

// nameTaken turns the error of the index of names into NameTaken.
func nameTaken(c *cluster.Cluster, err error) error {
	var pg *pgconn.PgError
	switch {
	case c == nil:
	case errors.As(err, &pg) && pg.ConstraintName == "container_cluster_name",
		sqlite.ErrCode(err) == sqlite.ResultConstraintUnique && strings.Contains(err.Error(), "container_cluster.account_id, container_cluster.name"):
		return cluster.NameTaken.Errorf("the account has a cluster %s already", c.Name).With("parameter", "name")
	}
	return err
}

// commit is one change that is being written. It may be tried several times, so it
// copies results into the change only when they are durable.
type commit struct {
	encrypter *secrets.Encrypter
	change    *cluster.Change

	list        []db.Statement
	newest      int64           // number of the last event
	target      cluster.Cluster // id, uuid, owner and new revision of the changed cluster
	hasTarget   bool            // target holds all four, not the id alone
	nodes, rows []int64         // ids
	jobs        []cluster.Job   // as stored
	events      []cluster.Event
}

// lock returns the name of the lock that all commits of one cluster take.
func (w *commit) lock() string {
	switch c := w.change; {
	case c.Cluster != nil && c.Cluster.ID == 0:
		return "cluster/" + c.Cluster.UUID
	case c.Cluster != nil:
		return clusterLock(c.Cluster.ID)
	case c.ClusterID != 0:
		return clusterLock(c.ClusterID)
	case len(c.Jobs) > 0:
		return "job/" + c.Jobs[0].ID
	}
	return "cluster/"
}

func clusterLock(id int64) string { return "cluster/" + strconv.FormatInt(id, 10) }

// try writes the change once. It reads only what it needs: the next phase of a journal
// row is a single statement.
func (w *commit) try(ctx context.Context, m db.Backend) error {
	c := w.change
	w.list, w.rows, w.jobs, w.events = nil, make([]int64, len(c.Journal)), nil, nil
	if err := w.cluster(ctx, m); err != nil {
		return err
	}
	for i, r := range c.Journal {
		if err := w.row(i, r); err != nil {
			return err
		}
	}
	w.nodes = make([]int64, len(c.Nodes))
	for _, i := range inOrder(c.Nodes) {
		w.node(i, c.Nodes[i])
	}
	if c.Details != nil {
		values, err := detailsValues(w.encrypter, c.Details, w.target.ID, w.target.UUID)
		if err != nil {
			return err
		}
		w.add(w.within(putDetailsSQL, values, 0), nil, nil)
	}
	for _, j := range c.Jobs {
		if err := w.job(j); err != nil {
			return err
		}
	}
	if err := w.event(); err != nil {
		return err
	}
	return m.Apply(ctx, db.Change{Lock: w.lock(), List: w.list})
}

// add appends a statement. id gets the number that it returns. If it returns no row, the
// whole change fails with must.
func (w *commit) add(s db.Statement, id *int64, must error) {
	if s.Must = must; id != nil {
		s.Each = func(r db.Row) error { *id = r.Int(0); return nil }
	}
	w.list = append(w.list, s)
}

// newClusterIDSQL finds the id of the cluster that this change inserts.
const newClusterIDSQL = "(SELECT id FROM container_cluster WHERE uuid = $1)"

// within returns a statement whose argument at an index is the id of the cluster. The
// database looks up the id of a new cluster.
func (w *commit) within(sql string, values []any, at int) db.Statement {
	if w.change.Cluster == nil || w.change.Cluster.ID != 0 {
		return db.Statement{SQL: sql, Args: values}
	}
	values[at] = w.target.UUID
	placeholder := fmt.Sprintf("$%d", at+1)
	return db.Statement{SQL: parameter.ReplaceAllStringFunc(sql, func(p string) string {
		if p == placeholder {
			return strings.Replace(newClusterIDSQL, "$1", p, 1)
		}
		return p
	}), Args: values}
}

var parameter = regexp.MustCompile(`\$[0-9]+`)

// cluster adds the statement that stores the cluster, or reads the cluster if later
// statements need it.
func (w *commit) cluster(ctx context.Context, m db.Backend) error {
	c := w.change
	w.target, w.hasTarget = cluster.Cluster{}, false
	switch {
	case c.Cluster == nil && c.ClusterID == 0:
		if len(c.Nodes)+len(c.Journal) > 0 || c.Details != nil {
			return cluster.NotFound.Errorf("a change of nodes, journal or details names no cluster")
		}
		return nil
	case c.Cluster == nil:
		w.target.ID = c.ClusterID
		if len(c.Jobs)+len(c.Events)+len(c.Nodes) == 0 && c.Details == nil &&
			!slices.ContainsFunc(c.Journal, func(r *cluster.JournalRow) bool { return r.ID == 0 }) {
			return nil // the journal rows hold the cluster id
		}
		if err := m.Read(ctx, func(s db.Session) error {
			return s.Query(`SELECT uuid, account_id, domain_id, revision FROM container_cluster WHERE id = $1`, []any{c.ClusterID}, func(r db.Row) error {
				w.target.UUID, w.target.Owner, w.target.Revision, w.hasTarget = r.Text(0), cluster.Owner{AccountID: r.Text(1), DomainID: r.Text(2)}, r.Int(3), true
				return nil
			})
		}); err != nil {
			return err
		}
		if !w.hasTarget {
			return cluster.NotFound.Errorf("no cluster has the key %d", c.ClusterID)
		}
		w.add(db.Statement{SQL: `SELECT id FROM container_cluster WHERE id = $1 AND revision = $2`, Args: []any{c.ClusterID, w.target.Revision}}, nil, db.ErrStale)
		return nil
	}
	w.hasTarget = true
	w.target.UUID, w.target.Owner, w.target.Revision = c.Cluster.UUID, c.Cluster.Owner, c.Cluster.Revision+1
	if c.Cluster.ID == 0 {
		w.target.Revision = 1
	}
	values, err := clusterValues(c.Cluster, w.target.Revision)
	if err != nil {
		return err
	}
	if c.Cluster.ID == 0 {
		w.add(db.Statement{SQL: newClusterSQL, Args: values}, &w.target.ID, fault.WriteConflict.Errorf("cluster %s exists", c.Cluster.UUID))
		return nil
	}
	w.target.ID = c.Cluster.ID
	w.add(db.Statement{SQL: setClusterSQL, Args: append(values, c.Cluster.ID, c.Cluster.Revision)}, nil,
		fault.WriteConflict.Errorf("cluster %s is not at revision %d", c.Cluster.Name, c.Cluster.Revision))
	return nil
}

var (
	newClusterSQL = clusterTable.insert + " ON CONFLICT (uuid) DO NOTHING RETURNING id"
	setClusterSQL = clusterTable.update + fmt.Sprintf(" WHERE id = $%d AND revision = $%d RETURNING id", len(clusterTable.columns)+1, len(clusterTable.columns)+2)
	newRowSQL     = rowTable.insert + " ON CONFLICT (cluster_id, key) DO NOTHING RETURNING id"
	setRowSQL     = rowTable.update + fmt.Sprintf(" WHERE id = $%d AND revision = $%d AND cluster_id = $1 RETURNING id", len(rowTable.columns)+1, len(rowTable.columns)+2)
)

func (w *commit) row(i int, r *cluster.JournalRow) error {
	sql, revision, missing := newRowSQL, int64(1), fault.WriteConflict.Errorf("journal key %s exists", r.Key)
	if r.ID != 0 {
		sql, revision, missing = setRowSQL, r.Revision+1, fault.WriteConflict.Errorf("journal row %s is not at revision %d", r.Key, r.Revision)
	}
	values, err := rowValues(r, w.target.ID, revision)
	if err != nil {
		return err
	}
	if r.ID != 0 {
		values = append(values, r.ID, r.Revision)
	}
	w.add(w.within(sql, values, 0), &w.rows[i], missing)
	return nil
}

// resourceSQL finds a node's resource_id by its key. It follows the values of nodeTable.
const resourceSQL = `(SELECT id FROM container_cluster_resource WHERE cluster_id = $1 AND key = $3)`

var (
	newNodeSQL = "INSERT INTO " + nodeTable.name + " (" + nodeTable.all + ", resource_id) VALUES (" + db.Parameters(1, len(nodeTable.columns)) + ", " + resourceSQL + ") RETURNING id"
	// A heartbeat that is newer than the caller's copy of the node is kept.
	setNodeSQL = `UPDATE container_cluster_vm_map SET cluster_id = $1, vm_id = $2, resource_key = $3, name = $4, role = $5, ordinal = $6,
		template_id = $7, template_name = $8, removed = $9,
		hello_at = CASE WHEN hello_at > $10 THEN hello_at ELSE $10 END,
		version = CASE WHEN hello_at > $10 AND version <> '' THEN version ELSE $11 END,
		address = CASE WHEN hello_at > $10 AND address <> '' THEN address ELSE $12 END,
		ready_at = CASE WHEN hello_at > $10 AND CAST($13 AS bigint) = 0 THEN ready_at ELSE $13 END,
		not_ready = CASE WHEN hello_at > $10 THEN not_ready ELSE $14 END,
		resource_id = ` + resourceSQL + ` WHERE id = $15 AND cluster_id = $1 RETURNING id`
)

// inOrder returns the indexes of nodes in the order of their ids, which is the order in
// which heartbeats write them: so the two never deadlock. New nodes keep their order.
func inOrder(nodes []*cluster.Node) []int {
	indexes := make([]int, len(nodes))
	for i := range indexes {
		indexes[i] = i
	}
	slices.SortStableFunc(indexes, func(a, b int) int { return cmp.Compare(nodes[a].ID, nodes[b].ID) })
	return indexes
}

func (w *commit) node(i int, n *cluster.Node) {
	values, sql := nodeValues(n, w.target.ID), newNodeSQL
	if n.ID != 0 {
		values, sql = append(values, n.ID), setNodeSQL
	}
	w.add(w.within(sql, values, 0), &w.nodes[i], fault.WriteConflict.Errorf("node %s is not recorded for this cluster", n.Name))
}

var putDetailsSQL = detailsTable.insert + ` ON CONFLICT (cluster_id) DO UPDATE SET ` + db.Excluded(detailsTable.columns[1:])

// putJobSQL does not change a job that is completed or that belongs to another request.
var putJobSQL = jobTable.insert + ` ON CONFLICT (id) DO UPDATE SET ` + db.Excluded(jobTable.columns[1:]) + `
	WHERE job.status = 0 AND job.digest = excluded.digest AND job.cluster_id = excluded.cluster_id RETURNING number`

func (w *commit) job(given *cluster.Job) error {
	j := *given
	if w.hasTarget {
		j.SetCluster(&w.target)
	}
	values, err := jobValues(w.encrypter, &j)
	if err != nil {
		return err
	}
	w.add(w.within(putJobSQL, values, 1), nil, fault.WriteConflict.Errorf("job %s is completed, or is another request's", j.ID))
	w.jobs = append(w.jobs, j)
	return nil
}

// newEventSQL inserts one of several events. Its first argument is the distance of its
// number from the newest number.
var newEventSQL = "INSERT INTO " + eventTable.name + " (" + eventTable.all + ") SELECT newest - CAST($1 AS bigint), CAST($2 AS bigint), " +
	db.Parameters(3, len(eventTable.columns)-2) + " FROM cluster_feed"

// event comes last: it locks the row that assigns the numbers until the commit, so that
// events become visible in the order of their numbers.
func (w *commit) event() error {
	n := int64(len(w.change.Events))
	if n == 0 {
		return nil
	}
	w.add(db.Statement{SQL: `UPDATE cluster_feed SET newest = newest + $1 RETURNING newest`, Args: []any{n}}, &w.newest, nil)
	for i, given := range w.change.Events {
		e := *given
		if w.hasTarget {
			e.SetCluster(&w.target)
		}
		values, err := eventValues(&e, n-1-int64(i))
		if err != nil {
			return err
		}
		w.add(db.Statement{SQL: newEventSQL, Args: values}, nil, nil)
		w.events = append(w.events, e)
	}
	return nil
}

// fillIn copies the stored ids, revisions and numbers into the caller's change.
func (w *commit) fillIn() {
	c := w.change
	if c.Cluster != nil {
		c.Cluster.ID, c.Cluster.Revision = w.target.ID, w.target.Revision
	}
	for i := range w.events {
		w.events[i].Seq = w.newest - int64(len(w.events)) + 1 + int64(i)
	}
	for i, n := range c.Nodes {
		n.ID, n.ClusterID = w.nodes[i], w.target.ID
	}
	for i, r := range c.Journal {
		if r.ID == 0 {
			r.Revision = 0
		}
		r.ID, r.ClusterID, r.Revision = w.rows[i], w.target.ID, r.Revision+1
	}
	if c.Details != nil {
		c.Details.ClusterID = w.target.ID
	}
	for i, j := range c.Jobs {
		if w.hasTarget {
			w.jobs[i].ClusterID = w.target.ID
		}
		j.ClusterID, j.Cluster, j.Owner = w.jobs[i].ClusterID, w.jobs[i].Cluster, w.jobs[i].Owner
	}
	for i, e := range c.Events {
		e.Seq, e.Cluster, e.Owner, e.Revision = w.events[i].Seq, w.events[i].Cluster, w.events[i].Owner, w.events[i].Revision
	}
}
