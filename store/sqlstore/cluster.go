package sqlstore

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/jackc/pgx/v5/pgconn"
	"zombiezen.com/go/sqlite"

	"github.com/pawl-dev/pawl/cluster"
	"github.com/pawl-dev/pawl/fault"
)

// Clusters is the ledger of container clusters in either database.
// cluster/bookstest is its exam. What is secret in it is sealed with the
// master key of Options.
type Clusters struct {
	m     medium
	seal  *Sealer
	lists *lists
}

var _ cluster.Ledger = (*Clusters)(nil)

// Clusters are those of this file.
func (s *SQLite) Clusters() *Clusters { return &Clusters{sqMedium{s}, s.seal, &s.lists} }

// Clusters are those of this database.
func (p *Postgres) Clusters() *Clusters { return &Clusters{pgMedium{p}, p.seal, &p.lists} }

// Commit implements cluster.Books. On SQLite it shares its transaction with
// what else is written at the moment, and keeps its own all or nothing.
func (c *Clusters) Commit(ctx context.Context, change *cluster.Change) error {
	w := commit{seal: c.seal, change: change}
	if change.Cluster != nil {
		// Also after an error: what became of the change may be unknown.
		defer c.lists.changed(change.Cluster.ID == 0 || change.Cluster.State == cluster.Destroyed)
	}
	if err := c.m.write(ctx, w.lock(), w.write); err != nil {
		return badRecord(err)
	}
	w.fillIn()
	return nil
}

// badRecord says that a value does not fit its column.
func badRecord(err error) error {
	var pg *pgconn.PgError
	switch {
	case errors.As(err, &pg) && strings.HasPrefix(pg.Code, "22"), sqlite.ErrCode(err) == sqlite.ResultConstraintCheck:
		return cluster.ClusterInvalid.Errorf("a value does not fit into the books: %w", err)
	}
	return err
}

// commit is one change on its way into the tables. write may be called again,
// so what it learns is kept aside until it is durable.
type commit struct {
	seal   *Sealer
	change *cluster.Change

	book        cluster.Cluster // id, uuid, owner and new revision of the cluster it belongs to
	hasBook     bool            // all of them, not the id alone
	nodes, rows []int64         // ids
	jobs        []cluster.Job   // as stored
	events      []cluster.Event
}

// lock names what commits of one cluster share.
func (w *commit) lock() string {
	switch c := w.change; {
	case c.Cluster != nil && c.Cluster.ID == 0:
		return "cluster/" + c.Cluster.UUID
	case c.Cluster != nil:
		return bookLock(c.Cluster.ID)
	case c.Book != 0:
		return bookLock(c.Book)
	case len(c.Jobs) > 0:
		return "job/" + c.Jobs[0].ID
	}
	return "cluster/"
}

func bookLock(id int64) string { return "cluster/" + strconv.FormatInt(id, 10) }

// write reads nothing it does not need: a row's next phase is one statement.
func (w *commit) write(s session) error {
	c := w.change
	w.rows, w.jobs, w.events = nil, nil, nil
	if err := w.cluster(s); err != nil {
		return err
	}
	for _, r := range c.Journal {
		if err := w.row(s, r); err != nil {
			return err
		}
	}
	w.nodes = make([]int64, len(c.Nodes))
	for _, i := range inOrder(c.Nodes) {
		id, err := w.node(s, c.Nodes[i])
		if err != nil {
			return err
		}
		w.nodes[i] = id
	}
	if c.Details != nil {
		values, err := detailsValues(w.seal, c.Details, w.book.ID, w.book.UUID)
		if err != nil {
			return err
		}
		if err := s.query(putDetailsSQL, values, nil); err != nil {
			return err
		}
	}
	for _, j := range c.Jobs {
		if err := w.job(s, j); err != nil {
			return err
		}
	}
	return w.event(s)
}

// cluster stores the cluster, or finds it if what follows needs it.
func (w *commit) cluster(s session) error {
	c := w.change
	w.book, w.hasBook = cluster.Cluster{}, false
	switch {
	case c.Cluster == nil && c.Book == 0:
		if len(c.Nodes)+len(c.Journal) > 0 || c.Details != nil {
			return cluster.NotFound.Errorf("a change of nodes, journal or details names no cluster")
		}
		return nil
	case c.Cluster == nil:
		w.book.ID = c.Book
		if len(c.Jobs)+len(c.Events)+len(c.Nodes) == 0 && c.Details == nil &&
			!slices.ContainsFunc(c.Journal, func(r *cluster.JournalRow) bool { return r.ID == 0 }) {
			return nil // its rows know it
		}
		if err := s.query(`SELECT uuid, account_id, domain_id, revision FROM container_cluster WHERE id = $1`, []any{c.Book}, func(r row) error {
			w.book.UUID, w.book.Owner, w.book.Revision, w.hasBook = r.text(0), cluster.Owner{AccountID: r.text(1), DomainID: r.text(2)}, r.int(3), true
			return nil
		}); err != nil {
			return err
		}
		if !w.hasBook {
			return cluster.NotFound.Errorf("no cluster has the key %d", c.Book)
		}
		return nil
	}
	w.hasBook = true
	w.book.UUID, w.book.Owner, w.book.Revision = c.Cluster.UUID, c.Cluster.Owner, c.Cluster.Revision+1
	if c.Cluster.ID == 0 {
		w.book.Revision = 1
	}
	values, err := clusterValues(c.Cluster, w.book.Revision)
	if err != nil {
		return err
	}
	sql := newClusterSQL
	if c.Cluster.ID != 0 {
		sql, values = setClusterSQL, append(values, c.Cluster.ID, c.Cluster.Revision)
	}
	id, err := one(s, sql, values)
	switch {
	case err != nil:
		return err
	case id != 0:
		w.book.ID = id
		return nil
	case c.Cluster.ID == 0:
		return fault.WriteConflict.Errorf("cluster %s exists", c.Cluster.UUID)
	}
	return fault.WriteConflict.Errorf("cluster %s is not at revision %d", c.Cluster.Name, c.Cluster.Revision)
}

// one gives the number in the first row of an answer, 0 without any.
func one(s session, sql string, args []any) (n int64, err error) {
	err = s.query(sql, args, func(r row) error { n = r.int(0); return nil })
	return n, err
}

var (
	newClusterSQL = clusterTable.insert + " ON CONFLICT (uuid) DO NOTHING RETURNING id"
	setClusterSQL = clusterTable.update + fmt.Sprintf(" WHERE id = $%d AND revision = $%d RETURNING id", len(clusterTable.columns)+1, len(clusterTable.columns)+2)
	newRowSQL     = rowTable.insert + " ON CONFLICT (cluster_id, key) DO NOTHING RETURNING id"
	setRowSQL     = rowTable.update + fmt.Sprintf(" WHERE id = $%d AND revision = $%d AND cluster_id = $1 RETURNING id", len(rowTable.columns)+1, len(rowTable.columns)+2)
)

func (w *commit) row(s session, r *cluster.JournalRow) error {
	sql, revision := newRowSQL, int64(1)
	if r.ID != 0 {
		sql, revision = setRowSQL, r.Revision+1
	}
	values, err := rowValues(r, w.book.ID, revision)
	if err != nil {
		return err
	}
	if r.ID != 0 {
		values = append(values, r.ID, r.Revision)
	}
	id, err := one(s, sql, values)
	switch {
	case err != nil:
		return err
	case id == 0 && r.ID == 0:
		return fault.WriteConflict.Errorf("journal key %s exists", r.Key)
	case id == 0:
		return fault.WriteConflict.Errorf("journal row %s is not at revision %d", r.Key, r.Revision)
	}
	w.rows = append(w.rows, id)
	return nil
}

// resourceSQL sets a node's resource_id by its key; it follows the values of nodeTable.
const resourceSQL = `(SELECT id FROM container_cluster_resource WHERE cluster_id = $1 AND key = $3)`

var (
	newNodeSQL = "INSERT INTO " + nodeTable.name + " (" + nodeTable.all + ", resource_id) VALUES (" + parameters(1, len(nodeTable.columns)) + ", " + resourceSQL + ") RETURNING id"
	// A hello that is newer than the one the node was read with stays.
	setNodeSQL = `UPDATE container_cluster_vm_map SET cluster_id = $1, vm_id = $2, resource_key = $3, name = $4, role = $5, ordinal = $6,
		template_id = $7, template_name = $8, removed = $9,
		hello_at = CASE WHEN hello_at > $10 THEN hello_at ELSE $10 END,
		version = CASE WHEN hello_at > $10 AND version <> '' THEN version ELSE $11 END,
		address = CASE WHEN hello_at > $10 AND address <> '' THEN address ELSE $12 END,
		ready_at = CASE WHEN hello_at > $10 AND CAST($13 AS bigint) = 0 THEN ready_at ELSE $13 END,
		not_ready = CASE WHEN hello_at > $10 THEN not_ready ELSE $14 END,
		resource_id = ` + resourceSQL + ` WHERE id = $15 AND cluster_id = $1 RETURNING id`
)

// inOrder gives the places of nodes in the order of their ids, as hellos write
// them: so the two never wait for each other. New ones stay as they are.
func inOrder(nodes []*cluster.Node) []int {
	places := make([]int, len(nodes))
	for i := range places {
		places[i] = i
	}
	slices.SortStableFunc(places, func(a, b int) int { return cmp.Compare(nodes[a].ID, nodes[b].ID) })
	return places
}

func (w *commit) node(s session, n *cluster.Node) (int64, error) {
	values := nodeValues(n, w.book.ID)
	if n.ID == 0 {
		return one(s, newNodeSQL, values)
	}
	id, err := one(s, setNodeSQL, append(values, n.ID))
	if err == nil && id == 0 {
		err = fault.WriteConflict.Errorf("node %s is not in the books of this cluster", n.Name)
	}
	return id, err
}

var putDetailsSQL = detailsTable.insert + ` ON CONFLICT (cluster_id) DO UPDATE SET ` + excluded(detailsTable.columns[1:])

// putJobSQL leaves what is completed or another request's alone.
var putJobSQL = jobTable.insert + ` ON CONFLICT (id) DO UPDATE SET ` + excluded(jobTable.columns[1:]) + `
	WHERE job.status = 0 AND job.digest = excluded.digest AND job.cluster_id = excluded.cluster_id RETURNING number`

func excluded(columns []string) string {
	var set []string
	for _, c := range columns {
		set = append(set, c+" = excluded."+c)
	}
	return strings.Join(set, ", ")
}

func (w *commit) job(s session, given *cluster.Job) error {
	j := *given
	if w.hasBook {
		j.Belong(&w.book)
	}
	values, err := jobValues(w.seal, &j)
	if err != nil {
		return err
	}
	number, err := one(s, putJobSQL, values)
	if err == nil && number == 0 {
		err = fault.WriteConflict.Errorf("job %s is completed, or is another request's", j.ID)
	}
	w.jobs = append(w.jobs, j)
	return err
}

// event is last: the row that gives out the numbers is locked from here to the
// commit, so that they become visible in order.
func (w *commit) event(s session) error {
	n := int64(len(w.change.Events))
	if n == 0 {
		return nil
	}
	newest, err := one(s, `UPDATE cluster_feed SET newest = newest + $1 RETURNING newest`, []any{n})
	if err != nil {
		return err
	}
	for i, given := range w.change.Events {
		e := *given
		if w.hasBook {
			e.Belong(&w.book)
		}
		e.Seq = newest - n + 1 + int64(i)
		values, err := eventValues(&e, e.Seq)
		if err == nil {
			err = s.query(eventTable.insert, values, nil)
		}
		if err != nil {
			return err
		}
		w.events = append(w.events, e)
	}
	return nil
}

// fillIn tells the caller what was stored.
func (w *commit) fillIn() {
	c := w.change
	if c.Cluster != nil {
		c.Cluster.ID, c.Cluster.Revision = w.book.ID, w.book.Revision
	}
	for i, n := range c.Nodes {
		n.ID, n.ClusterID = w.nodes[i], w.book.ID
	}
	for i, r := range c.Journal {
		if r.ID == 0 {
			r.Revision = 0
		}
		r.ID, r.ClusterID, r.Revision = w.rows[i], w.book.ID, r.Revision+1
	}
	if c.Details != nil {
		c.Details.ClusterID = w.book.ID
	}
	for i, j := range c.Jobs {
		j.ClusterID, j.Cluster, j.Owner = w.jobs[i].ClusterID, w.jobs[i].Cluster, w.jobs[i].Owner
	}
	for i, e := range c.Events {
		e.Seq, e.Cluster, e.Owner, e.Revision = w.events[i].Seq, w.events[i].Cluster, w.events[i].Owner, w.events[i].Revision
	}
}

// Setting gives the value kept under a name, "" if there is none.
func (c *Clusters) Setting(ctx context.Context, name string) (value string, err error) {
	err = c.m.read(ctx, func(s session) error {
		value, err = setting(s, name)
		return err
	})
	return value, err
}

func setting(s session, name string) (value string, err error) {
	err = s.query(`SELECT value FROM setting WHERE name = $1`, []any{name}, func(r row) error { value = r.text(0); return nil })
	return value, err
}

// PutSetting keeps a value under a name.
func (c *Clusters) PutSetting(ctx context.Context, name, value string) error {
	return c.m.write(ctx, "setting/"+name, func(s session) error {
		return s.query(`INSERT INTO setting (name, value, at) VALUES ($1, $2, $3) ON CONFLICT (name) DO UPDATE SET value = excluded.value, at = excluded.at`,
			[]any{name, plain(value), time.Now().UnixNano()}, nil)
	})
}

// SettingOr gives the value kept under a name, and keeps the given one if there
// is none: several servers agree on it, such as on the id of the installation.
func (c *Clusters) SettingOr(ctx context.Context, name, value string) (kept string, err error) {
	err = c.m.write(ctx, "setting/"+name, func(s session) error {
		if err := s.query(`INSERT INTO setting (name, value, at) VALUES ($1, $2, $3) ON CONFLICT (name) DO NOTHING`,
			[]any{name, plain(value), time.Now().UnixNano()}, nil); err != nil {
			return err
		}
		kept, err = setting(s, name)
		return err
	})
	return kept, err
}
