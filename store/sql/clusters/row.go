package clusters

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"strings"
	"time"

	"github.com/pawl-dev/pawl/cluster"
	"github.com/pawl-dev/pawl/fault"
	"github.com/pawl-dev/pawl/machine"
	"github.com/pawl-dev/pawl/store/sql/db"
	"github.com/pawl-dev/pawl/store/sql/secrets"
	"github.com/pawl-dev/pawl/workflow/runstore"
)

// table is the table of one kind of record: its columns and the statements built from
// them.
type table struct {
	name    string
	columns []string
	all     string // the columns, joined with commas
	insert  string // INSERT of all columns; the caller appends the conflict clause
	update  string // UPDATE of all columns; the caller appends the condition
}

func newTable(name, columns string) table {
	t := table{name: name, columns: strings.Fields(columns)}
	t.all = strings.Join(t.columns, ", ")
	t.insert = fmt.Sprintf("INSERT INTO %s (%s) VALUES (%s)", name, t.all, db.Parameters(1, len(t.columns)))
	var set []string
	for i, c := range t.columns {
		set = append(set, fmt.Sprintf("%s = $%d", c, i+1))
	}
	t.update = fmt.Sprintf("UPDATE %s SET %s", name, strings.Join(set, ", "))
	return t
}

// width is the number of columns of a SELECT of the id and all columns.
func (t table) width() int { return 1 + len(t.columns) }

var (
	clusterTable = newTable("container_cluster", `uuid name description zone_id zone_name service_offering_id offering_name template_id template_name
		network_id network_name node_count control_count account_id domain_id provider state state_since desired key_pair cores memory version
		endpoint console_endpoint created removed gc gc_attempts gc_next revision run_id reason_code reason_text reason_step reason_resource
		on_failure recovery recover_tries recover_next cidr_list alarm suspect_since observed_at started forget autoscale position ask findings disk_gb
		folded_name folded_description look_at`)
	nodeTable = newTable("container_cluster_vm_map", `cluster_id vm_id resource_key name role ordinal template_id template_name removed
		hello_at version address ready_at not_ready`)
	detailsTable = newTable("container_cluster_details", `cluster_id cluster username password registry_username registry_password registry_url
		registry_email network_cleanup config_data ca_cert ca_key join_token_hash join_token_expires join_token_run credentials`)
	rowTable = newTable("container_cluster_resource", `cluster_id key revision kind name run_id step attempt call_id job_id provider_id identity
		phase origin spec attempts last_code last_error intent_at present_at closing_at gone_at next_at`)
	jobTable = newTable("job", `id cluster_id cluster command kind digest account_id domain_id actor status code text step password run_id created completed`)
	// eventTable holds all fields that no query filters by
	eventTable = newTable("cluster_event", `seq at cluster account_id domain_id type body data`)
)

// documents encodes values as JSON, zero values as NULL. err is the first encoding
// error.
type documents struct{ err error }

func (d *documents) of(v any) any {
	if reflect.ValueOf(v).IsZero() {
		return nil
	}
	return d.text(v)
}

// text leaves <, > and & unescaped; json.Marshal would escape them.
func (d *documents) text(v any) string {
	var out bytes.Buffer
	enc := json.NewEncoder(&out)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil && d.err == nil {
		d.err = fmt.Errorf("clusters: %T has no JSON: %w", v, err)
	}
	return strings.TrimSpace(out.String())
}

// reader reads the columns of a row one after the other.
type reader struct {
	row      db.Row
	next     int
	err      error
	previous []string // texts of the row before, by column; nil: do not reuse texts
	buf      []byte
}

// reset begins another row.
func (r *reader) reset(on db.Row) { r.row, r.next, r.err = on, 0, nil }

func (r *reader) int() int64 { r.next++; return r.row.Int(r.next - 1) }

// text reuses the text of the row before if it is equal: many columns of a list have few
// distinct values.
func (r *reader) text() string {
	r.next++
	if r.previous == nil {
		return r.row.Text(r.next - 1)
	}
	last := &r.previous[r.next-1]
	if r.buf = r.row.AppendText(r.buf[:0], r.next-1); string(r.buf) != *last {
		*last = string(r.buf)
	}
	return *last
}

func (r *reader) bytes() []byte { r.next++; return r.row.Bytes(r.next - 1) }

func (r *reader) time() time.Time { return db.Instant(r.int()) }

func (r *reader) document(v any) {
	if text := r.text(); text != "" && r.err == nil {
		r.decode(text, v)
	}
}

func (r *reader) decode(text string, v any) {
	if err := json.Unmarshal([]byte(text), v); err != nil {
		r.err = runstore.StoreCorrupt.Errorf("a stored %T: %w", v, err)
	}
}

// splitList splits a comma-separated text; nil for "".
func splitList(s string) []string {
	if s == "" {
		return nil
	}
	return strings.Split(s, ",")
}

func recoveryText(r cluster.Recovery) any {
	if r == nil {
		return nil
	}
	if len(r) == 0 {
		return "none"
	}
	var list []string
	for _, remedy := range r {
		list = append(list, string(remedy))
	}
	return strings.Join(list, ",")
}

func recoveryOf(s string) cluster.Recovery {
	switch s {
	case "":
		return nil
	case "none":
		return cluster.Recovery{}
	}
	var r cluster.Recovery
	for _, remedy := range strings.Split(s, ",") {
		r = append(r, cluster.Remedy(remedy))
	}
	return r
}

// controllerDueAt is when the controller must process a cluster: 1 means at once, NULL
// never.
func controllerDueAt(c *cluster.Cluster) any {
	switch {
	case c.State == cluster.Destroyed:
		return nil
	case cluster.Transient(c.State), c.Request != nil, c.Alarm, string(c.Desired) != string(c.State):
		return int64(1)
	case c.GCNext.IsZero():
		return db.OrNull(c.RecoverNext)
	case c.RecoverNext.IsZero() || c.GCNext.Before(c.RecoverNext):
		return db.OrNull(c.GCNext)
	}
	return db.OrNull(c.RecoverNext)
}

func clusterValues(c *cluster.Cluster, revision int64) ([]any, error) {
	var d documents
	values := []any{c.UUID, db.Plain(c.Name), db.Plain(c.Description), c.Zone.ID, db.Plain(c.Zone.Name), c.Offering.ID, db.Plain(c.Offering.Name), c.Template.ID, db.Plain(c.Template.Name),
		c.Network.ID, db.Plain(c.Network.Name), c.NodeCount, c.ControlCount, c.Owner.AccountID, c.Owner.DomainID, c.Provider, string(c.State), db.Nanos(c.StateSince),
		string(c.Desired), c.KeyPair, c.Cores, c.MemoryMB, c.Version, c.Endpoint, c.ConsoleEndpoint, db.Nanos(c.Created), db.OrNull(c.Removed), db.Flag(c.GC),
		c.GCAttempts, db.Nanos(c.GCNext), revision, c.RunID, string(c.Reason.Code), db.Plain(c.Reason.Text), c.Reason.Step, db.Plain(c.Reason.Resource), string(c.OnFailure),
		recoveryText(c.Recovery), c.RecoverTries, db.Nanos(c.RecoverNext), strings.Join(c.CIDRs, ","), db.Flag(c.Alarm), db.Nanos(c.SuspectSince), db.Nanos(c.ObservedAt),
		db.Flag(c.Started), db.Flag(c.Forget), d.of(c.Autoscale), d.of(c.Position), d.of(c.Request), d.of(c.Findings), c.DiskGB,
		strings.ToLower(db.Plain(c.Name)), strings.ToLower(db.Plain(c.Description)), controllerDueAt(c)}
	return values, d.err
}

// readCluster reads id and the columns of clusterTable.
func readCluster(from db.Row) (c cluster.Cluster, err error) {
	err = new(reader).cluster(from, &c)
	return c, err
}

// cluster reads the id and the columns of clusterTable into an empty cluster.
func (r *reader) cluster(from db.Row, c *cluster.Cluster) error {
	r.reset(from)
	c.ID, c.UUID, c.Name, c.Description = r.int(), r.text(), r.text(), r.text()
	for _, e := range [...]*cluster.Entity{&c.Zone, &c.Offering, &c.Template, &c.Network} {
		e.ID, e.Name = r.text(), r.text()
	}
	c.NodeCount, c.ControlCount = int(r.int()), int(r.int())
	c.Owner = cluster.Owner{AccountID: r.text(), DomainID: r.text()}
	c.Provider, c.State, c.StateSince, c.Desired, c.KeyPair = r.text(), machine.State(r.text()), r.time(), cluster.Desired(r.text()), r.text()
	c.Cores, c.MemoryMB, c.Version, c.Endpoint, c.ConsoleEndpoint = int(r.int()), int(r.int()), r.text(), r.text(), r.text()
	c.Created, c.Removed, c.GC, c.GCAttempts, c.GCNext, c.Revision, c.RunID = r.time(), r.time(), r.int() != 0, int(r.int()), r.time(), r.int(), r.text()
	c.Reason = cluster.Reason{Code: fault.Code(r.text()), Text: r.text(), Step: r.text(), Resource: r.text()}
	c.OnFailure, c.Recovery, c.RecoverTries, c.RecoverNext, c.CIDRs = cluster.OnFailure(r.text()), recoveryOf(r.text()), int(r.int()), r.time(), splitList(r.text())
	c.Alarm, c.SuspectSince, c.ObservedAt, c.Started, c.Forget = r.int() != 0, r.time(), r.time(), r.int() != 0, r.int() != 0
	r.document(&c.Autoscale)
	c.Position = positionCache.of(r)
	r.document(&c.Request)
	r.document(&c.Findings)
	c.DiskGB = int(r.int())
	return r.err
}

func nodeValues(n *cluster.Node, clusterID int64) []any {
	return []any{clusterID, n.VMID, n.Key, n.Name, string(n.Role), n.Ordinal, n.Template.ID, db.Plain(n.Template.Name), db.OrNull(n.Removed),
		db.Nanos(n.HeartbeatAt), n.Version, n.Address, db.Nanos(n.ReadyAt), db.Plain(n.NotReady)}
}

func readNode(from db.Row) cluster.Node { return (&reader{row: from}).node() }

// node reads id and the columns of nodeTable.
func (r *reader) node() (n cluster.Node) {
	n.ID, n.ClusterID, n.VMID, n.Key, n.Name, n.Role, n.Ordinal = r.int(), r.int(), r.text(), r.text(), r.text(), cluster.Role(r.text()), int(r.int())
	n.Template, n.Removed = cluster.Entity{ID: r.text(), Name: r.text()}, r.time()
	n.HeartbeatAt, n.Version, n.Address, n.ReadyAt, n.NotReady = r.time(), r.text(), r.text(), r.time(), r.text()
	return n
}

func rowValues(r *cluster.JournalRow, clusterID, revision int64) ([]any, error) {
	var d documents
	values := []any{clusterID, r.Key, revision, string(r.Kind), r.Name, r.RunID, r.Step, r.Attempt, r.CallID, r.JobID, r.ProviderID, r.Identity,
		string(r.Phase), string(r.Origin), d.text(r.Spec), r.Attempts, string(r.LastCode), db.Plain(r.LastError),
		db.Nanos(r.IntentAt), db.Nanos(r.PresentAt), db.Nanos(r.ClosingAt), db.Nanos(r.GoneAt), db.Nanos(r.NextAt)}
	return values, d.err
}

// readRow reads id and the columns of rowTable.
func readRow(r *reader) (j cluster.JournalRow) {
	j.ID, j.ClusterID, j.Key, j.Revision, j.Kind, j.Name = r.int(), r.int(), r.text(), r.int(), cluster.Kind(r.text()), r.text()
	j.RunID, j.Step, j.Attempt, j.CallID, j.JobID, j.ProviderID, j.Identity = r.text(), r.text(), int(r.int()), r.text(), r.text(), r.text(), r.text()
	j.Phase, j.Origin = cluster.Phase(r.text()), cluster.Origin(r.text())
	j.Spec = specCache.of(r)
	j.Attempts, j.LastCode, j.LastError = int(r.int()), fault.Code(r.text()), r.text()
	j.IntentAt, j.PresentAt, j.ClosingAt, j.GoneAt, j.NextAt = r.time(), r.time(), r.time(), r.time(), r.time()
	return j
}

func detailsValues(encrypter *secrets.Encrypter, d *cluster.Details, clusterID int64, uuid string) ([]any, error) {
	var err error
	var docs documents
	encrypted := func(column string, s cluster.Secret) []byte {
		out, e := encrypter.Encrypt(secrets.Location(detailsTable.name, column, uuid), s.Reveal())
		if err == nil {
			err = e
		}
		return out
	}
	values := []any{clusterID, uuid, db.Plain(d.Username), encrypted("password", d.Password), db.Plain(d.RegistryUsername), encrypted("registry_password", d.RegistryPassword),
		db.Plain(d.RegistryURL), db.Plain(d.RegistryEmail), db.Flag(d.NetworkCleanup), encrypted("config_data", d.ConfigData), db.Plain(d.CACert), encrypted("ca_key", d.CAKey),
		d.JoinTokenHash, db.Nanos(d.JoinTokenExpires), d.JoinTokenRun, docs.of(d.Credentials)}
	return values, errors.Join(err, docs.err)
}

// readDetails reads the columns of detailsTable.
func readDetails(encrypter *secrets.Encrypter, from db.Row) (*cluster.Details, error) {
	r, d := &reader{row: from}, new(cluster.Details)
	d.ClusterID = r.int()
	uuid := r.text()
	open := func(column string) cluster.Secret {
		secret, err := encrypter.Decrypt(secrets.Location(detailsTable.name, column, uuid), r.bytes())
		if r.err == nil {
			r.err = err
		}
		return cluster.Secret(secret)
	}
	d.Username, d.Password, d.RegistryUsername, d.RegistryPassword = r.text(), open("password"), r.text(), open("registry_password")
	d.RegistryURL, d.RegistryEmail, d.NetworkCleanup = r.text(), r.text(), r.int() != 0
	d.ConfigData, d.CACert, d.CAKey = open("config_data"), r.text(), open("ca_key")
	d.JoinTokenHash, d.JoinTokenExpires = r.text(), r.time()
	d.JoinTokenRun = r.text()
	r.document(&d.Credentials)
	return d, r.err
}

func jobValues(encrypter *secrets.Encrypter, j *cluster.Job) ([]any, error) {
	password, err := encrypter.Encrypt(secrets.Location(jobTable.name, "password", j.ID), j.Password.Reveal())
	return []any{j.ID, j.ClusterID, j.Cluster, db.Plain(j.Command), j.Kind, j.Digest, j.Owner.AccountID, j.Owner.DomainID, db.Plain(j.User), int(j.Status),
		string(j.Code), db.Plain(j.Text), j.Step, password, j.RunID, db.Nanos(j.Created), db.Nanos(j.Completed)}, err
}

// readJob reads the columns of jobTable. err is only the error of decrypting the
// password.
func readJob(encrypter *secrets.Encrypter, from db.Row) (j cluster.Job, err error) {
	r := &reader{row: from}
	j.ID, j.ClusterID, j.Cluster, j.Command, j.Kind, j.Digest = r.text(), r.int(), r.text(), r.text(), r.text(), r.text()
	j.Owner = cluster.Owner{AccountID: r.text(), DomainID: r.text()}
	j.User, j.Status, j.Code, j.Text, j.Step = r.text(), cluster.JobStatus(r.int()), fault.Code(r.text()), r.text(), r.text()
	password, err := encrypter.Decrypt(secrets.Location(jobTable.name, "password", j.ID), r.bytes())
	j.Password, j.RunID, j.Created, j.Completed = cluster.Secret(password), r.text(), r.time(), r.time()
	return j, err
}

func eventValues(e *cluster.Event, seq int64) ([]any, error) {
	var d documents
	body := *e
	body.Seq, body.Data = 0, nil
	var data any
	if e.Data != nil {
		data = string(e.Data)
	}
	return []any{seq, db.Nanos(e.At), e.Cluster, e.Owner.AccountID, e.Owner.DomainID, e.Type, d.text(body), data}, d.err
}

// readEvent reads the columns of eventTable.
func readEvent(from db.Row) (cluster.Event, error) {
	r := &reader{row: from}
	seq, at, uuid, account, domain, kind := r.int(), r.time(), r.text(), r.text(), r.text(), r.text()
	var e cluster.Event
	r.document(&e)
	e.Seq, e.At, e.Cluster, e.Owner, e.Type = seq, at, uuid, cluster.Owner{AccountID: account, DomainID: domain}, kind
	if data := r.text(); data != "" {
		e.Data = json.RawMessage(data)
	}
	return e, r.err
}
