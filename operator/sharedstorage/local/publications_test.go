package local

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"k8s.io/apimachinery/pkg/api/meta"

	"github.com/pawl-dev/pawl/control"
	"github.com/pawl-dev/pawl/operator/sharedstorage"
	"github.com/pawl-dev/pawl/operator/sharedstorage/declared"
	"github.com/pawl-dev/pawl/operator/sharedstorage/port"
	"github.com/pawl-dev/pawl/operator/sharedstorage/postgres"
)

// Rows of one cluster arrive in another, by fields alone; a failover of the subscriber loses none of them,
// a slot that is gone is told and not made anew, and no password is in a log.
func TestLogicalReplicationOfClusters(t *testing.T) {
	var mu sync.Mutex
	var events []string
	ctx, b, objects := served(t, func(o *sharedstorage.Options, s *Placement) {
		o.Secrets, o.Credentials = Secret, s.Credentials()
		o.Event = func(_ *sharedstorage.Cluster, e sharedstorage.Event) {
			mu.Lock()
			defer mu.Unlock()
			events = append(events, e.Reason+": "+e.Message)
		}
	})
	green := control.Ref{Kind: sharedstorage.Kind, Namespace: blue.Namespace, Name: "green"}
	folder := func(ref control.Ref) string {
		return b.folder(port.Ref{Namespace: ref.Namespace, Name: ref.Name})
	}
	apply := func(ref control.Ref, readers int, fields map[string]any) error {
		spec := map[string]any{"readers": readers, "storage": map[string]any{"size": "1Gi"}}
		for name, value := range fields {
			spec[name] = value
		}
		raw, err := json.Marshal(spec)
		b.must(err)
		_, err = objects.Apply(ctx, control.Object{Ref: ref, Spec: raw})
		return err
	}
	cluster := func(ref control.Ref) (*sharedstorage.Cluster, error) {
		o, err := objects.Get(ctx, ref)
		if err != nil {
			return nil, err
		}
		return ClusterStore{Objects: objects, Placement: b.Placement}.Of(o)
	}
	awaits := func(ref control.Ref, condition, reason, message string) (c *sharedstorage.Cluster) {
		t.Helper()
		eventually(t, 2*time.Minute, condition+" "+reason+" "+message, func() (err error) {
			if c, err = cluster(ref); err != nil {
				return err
			}
			is := meta.FindStatusCondition(c.Status.Conditions, condition)
			if is == nil || is.Reason != reason || !strings.Contains(is.Message, message) || is.ObservedGeneration != c.Generation {
				return fmt.Errorf("%+v, of %s", is, c.Status.State)
			}
			return nil
		})
		return c
	}
	writer := func(ref control.Ref) (name string, err error) {
		c, err := cluster(ref)
		if err != nil {
			return "", err
		}
		i, there := c.Status.Instances[c.Status.Writer]
		if !there {
			return "", errors.New("there is no writer")
		}
		return i.Name, nil
	}
	connect := func(ref control.Ref) (*pgx.Conn, error) {
		name, err := writer(ref)
		if err != nil {
			return nil, err
		}
		p, err := b.Instances().Locate(ctx, port.Ref{Namespace: ref.Namespace, Name: ref.Name, Instance: name})
		if err != nil {
			return nil, err
		}
		password, err := Folder(folder(ref)).Password()
		if err != nil {
			return nil, err
		}
		return pgx.Connect(ctx, fmt.Sprintf("host=%s port=%d user=postgres password=%s dbname=shop sslmode=disable connect_timeout=2", p.Engine.Host, p.Engine.Port, password))
	}
	sql := func(ref control.Ref, text string) (got string, err error) {
		conn, err := connect(ref)
		if err != nil {
			return "", err
		}
		defer conn.Close(ctx)
		rows, err := conn.Query(ctx, text, pgx.QueryExecModeSimpleProtocol)
		if err != nil {
			return "", err
		}
		all, err := pgx.CollectRows(rows, pgx.RowTo[string])
		return strings.Join(all, ","), err
	}
	gives := func(ref control.Ref, text, want string) {
		t.Helper()
		eventually(t, time.Minute, ref.Name+": "+text, func() error {
			if got, err := sql(ref, text); err != nil || got != want {
				return fmt.Errorf("%q, not %q: %w", got, want, err)
			}
			return nil
		})
	}
	execute := func(ref control.Ref, text string) {
		t.Helper()
		if _, err := sql(ref, text); err != nil {
			t.Fatalf("%s: %s: %v", ref.Name, text, err)
		}
	}
	const same = "SELECT count(*) || ' ' || coalesce(sum(hashtext(o::text)), 0) FROM orders o"
	equal := func() {
		t.Helper()
		want, err := sql(blue, same)
		b.must(err)
		gives(green, same, want)
	}

	// The publisher: the level of its log follows from the publication.
	secret := filepath.Join(b.o.Dir, "copier")
	b.must(postgresWrite(secret, "r3pl'ica \\"))
	publications := []map[string]any{{"name": "orders", "database": "shop", "tables": []string{"orders"}}}
	source := map[string]any{
		"users":     []map[string]any{{"name": "shop"}, {"name": "copier", "replication": true, "inRoles": []string{"pg_read_all_data"}, "password": map[string]any{"file": secret}}},
		"databases": []map[string]any{{"name": "shop", "owner": "shop"}}, "publications": publications,
	}
	b.must(apply(blue, 0, source))
	awaits(blue, declared.PublicationsCondition, "PublicationFailed", `create publication orders of shop: relation "public.orders" does not exist`)
	const table = "CREATE TABLE orders (id int PRIMARY KEY, item text)"
	execute(blue, table)
	execute(blue, "INSERT INTO orders SELECT n, 'before ' || n FROM generate_series(1, 100) n")
	awaits(blue, declared.PublicationsCondition, "AsWanted", "")
	gives(blue, "SHOW wal_level", "logical")

	// The subscriber: each thing that is missing is told.
	at, err := writer(blue)
	b.must(err)
	place, err := b.Instances().Locate(ctx, port.Ref{Namespace: blue.Namespace, Name: blue.Name, Instance: at})
	b.must(err)
	password := filepath.Join(b.o.Dir, "password-of-copier")
	subscription := map[string]any{"name": "orders_of_blue", "database": "shop", "publications": []string{"orders"},
		"from": map[string]any{"host": place.Engine.Host, "port": place.Engine.Port, "user": "copier", "password": map[string]any{"file": password}}}
	target := map[string]any{"users": []map[string]any{{"name": "shop"}}, "databases": source["databases"], "subscriptions": []map[string]any{subscription}}
	b.must(apply(green, 1, target))
	awaits(green, declared.SubscriptionsCondition, "PasswordMissing", "subscription orders_of_blue")
	b.must(postgresWrite(password, "wr0ng"))
	awaits(green, declared.SubscriptionsCondition, "SubscriptionFailed", "password authentication failed")
	b.must(postgresWrite(password, "r3pl'ica \\"))
	awaits(green, declared.SubscriptionsCondition, "SubscriptionFailed", `relation "public.orders" does not exist`)
	// While its statement waits for a transaction of the publisher, users are made.
	open, err := connect(blue)
	b.must(err)
	defer open.Close(ctx)
	_, err = open.Exec(ctx, "BEGIN; INSERT INTO orders VALUES (0, 'not yet')", pgx.QueryExecModeSimpleProtocol)
	b.must(err)
	execute(green, table)
	const waiting = "SELECT count(*)::text FROM pg_replication_slots WHERE slot_type = 'logical' AND confirmed_flush_lsn IS NULL"
	gives(blue, waiting, "1")
	target["users"] = []map[string]any{{"name": "shop"}, {"name": "meanwhile"}}
	b.must(apply(green, 1, target))
	gives(green, "SELECT count(*)::text FROM pg_roles WHERE rolname = 'meanwhile'", "1")
	gives(blue, waiting, "1")
	_, err = open.Exec(ctx, "ROLLBACK")
	b.must(err)
	awaits(green, declared.SubscriptionsCondition, "AsWanted", "")
	equal()
	execute(blue, "INSERT INTO orders SELECT n, 'later ' || n FROM generate_series(101, 200) n; UPDATE orders SET item = 'changed' WHERE id < 50; DELETE FROM orders WHERE id = 7")
	equal()
	gives(green, "SELECT subsynccommit FROM pg_subscription", "on")
	eventually(t, time.Minute, "the status", func() error {
		c, err := cluster(green)
		if err == nil && (len(c.Status.Subscriptions) != 1 || c.Status.Subscriptions[0].State != "Streaming" || c.Status.Subscriptions[0].LagBytes == nil) {
			err = fmt.Errorf("%+v", c.Status.Subscriptions)
		}
		return err
	})

	// A table more on one side is copied on the other.
	execute(blue, "CREATE TABLE items (id int PRIMARY KEY); INSERT INTO items VALUES (1), (2)")
	execute(green, "CREATE TABLE items (id int PRIMARY KEY)")
	publications[0]["tables"] = []string{"orders", "public.items"}
	b.must(apply(blue, 0, source))
	gives(green, "SELECT count(*)::text FROM items", "2")

	// While no reader has a commit, the publisher keeps it: the process of the subscription waits as clients do.
	c, err := cluster(green)
	b.must(err)
	for _, i := range c.Status.Instances {
		if i.Role != string(port.Reader) {
			continue
		}
		engine := postgres.EngineOf(filepath.Join(folder(green), "instances", i.Name)).PID
		frozen := append(childrenOf(engine), engine)
		thaw := func() {
			for _, pid := range frozen {
				_ = syscall.Kill(pid, syscall.SIGCONT) // it may be gone
			}
		}
		t.Cleanup(thaw)
		for _, pid := range frozen {
			b.must(syscall.Kill(pid, syscall.SIGSTOP))
		}
		execute(blue, "INSERT INTO orders VALUES (500, 'while the reader is frozen')")
		at, err := sql(blue, "SELECT pg_current_wal_lsn()::text")
		b.must(err)
		gives(green, "SELECT wait_event FROM pg_stat_activity WHERE backend_type = 'logical replication worker' AND wait_event = 'SyncRep'", "SyncRep")
		gives(blue, "SELECT (confirmed_flush_lsn < '"+at+"')::text FROM pg_replication_slots WHERE slot_type = 'logical'", "true")
		thaw()
	}
	equal()

	// A failover of the subscriber while rows come in: it goes on where its new writer is.
	stop, stopped := make(chan struct{}), make(chan error, 1)
	go func() {
		for n := 1000; ; n++ {
			select {
			case <-stop:
				stopped <- nil
				return
			case <-ctx.Done():
				stopped <- ctx.Err()
				return
			default:
			}
			if _, err := sql(blue, fmt.Sprintf("INSERT INTO orders VALUES (%d, 'in a failover')", n)); err != nil {
				stopped <- err
				return
			}
		}
	}()
	old, err := writer(green)
	b.must(err)
	b.must(b.locked(func() error { b.crash(filepath.Join(folder(green), "instances", old)); return nil }))
	eventually(t, time.Minute, "a failover", func() error {
		if now, err := writer(green); err != nil || now == old {
			return fmt.Errorf("the writer is %s: %w", now, err)
		}
		return nil
	})
	gives(green, "SELECT (count(*) > 0)::text FROM orders WHERE id >= 1000", "true")
	close(stop)
	b.must(<-stopped)
	equal()
	awaits(green, declared.SubscriptionsCondition, "AsWanted", "")

	// The slot is gone: that is told, and no other is made. Anew, it is dropped and declared again.
	eventually(t, time.Minute, "the slot is dropped", func() error {
		_, _ = sql(blue, "SELECT pg_terminate_backend(active_pid)::text FROM pg_replication_slots WHERE active")
		got, err := sql(blue, "SELECT pg_drop_replication_slot(slot_name)::text FROM pg_replication_slots WHERE NOT active")
		left, leftErr := sql(blue, "SELECT count(*)::text FROM pg_replication_slots WHERE slot_type = 'logical'")
		if err != nil || leftErr != nil || left != "0" {
			return fmt.Errorf("%s: %w %w, %s left", got, err, leftErr, left)
		}
		return nil
	})
	execute(blue, "INSERT INTO orders VALUES (9999, 'missed')")
	c = awaits(green, declared.SubscriptionsCondition, "SubscriptionSlotLost", "orders_of_blue")
	if s := c.Status.Subscriptions; len(s) != 1 || s[0].State != "SlotLost" || s[0].LagBytes != nil {
		t.Errorf("%+v", s)
	}
	target["subscriptions"] = []map[string]any{{"name": "orders_of_blue", "database": "shop", "ensure": "absent"}}
	b.must(apply(green, 1, target))
	gives(green, "SELECT count(*)::text FROM pg_subscription", "0")
	awaits(green, declared.SubscriptionsCondition, "AsWanted", "")
	execute(green, "TRUNCATE orders, items")
	target["subscriptions"] = []map[string]any{subscription}
	b.must(apply(green, 1, target))
	awaits(green, declared.SubscriptionsCondition, "AsWanted", "")
	equal()
	gives(green, "SELECT count(*)::text FROM items", "2")

	// A row that is there already stops a subscription, and that is told; when it is gone, it goes on.
	execute(green, "INSERT INTO orders VALUES (10000, 'of green')")
	execute(blue, "INSERT INTO orders VALUES (10000, 'of blue')")
	awaits(green, declared.SubscriptionsCondition, "SubscriptionFailed", "the log of the writer")
	execute(green, "DELETE FROM orders WHERE id = 10000")
	awaits(green, declared.SubscriptionsCondition, "AsWanted", "")
	equal()

	// What is dropped is dropped on both sides, and undeclared fields have no condition.
	target["subscriptions"] = []map[string]any{{"name": "orders_of_blue", "database": "shop", "ensure": "absent"}}
	b.must(apply(green, 1, target))
	gives(blue, "SELECT count(*)::text FROM pg_replication_slots WHERE slot_type = 'logical'", "0")
	delete(target, "subscriptions")
	b.must(apply(green, 1, target))
	eventually(t, time.Minute, "no condition", func() error {
		c, err := cluster(green)
		if err == nil && (meta.FindStatusCondition(c.Status.Conditions, declared.SubscriptionsCondition) != nil || len(c.Status.Subscriptions) > 0) {
			err = fmt.Errorf("%+v", c.Status)
		}
		return err
	})

	mu.Lock()
	all := strings.Join(events, "\n")
	mu.Unlock()
	for _, want := range []string{"LogicalReplicationChanged: create publication orders of shop", "LogicalReplicationChanged: create subscription orders_of_blue of shop", "SubscriptionSlotLost: ", "new tables of subscription orders_of_blue of shop"} {
		if !strings.Contains(all, want) {
			t.Errorf("no Event %q in\n%s", want, all)
		}
	}
	logged := false // that the logs are read at all
	for _, word := range []string{"r3pl", "wr0ng"} {
		if strings.Contains(all, word) {
			t.Errorf("an Event has %q", word)
		}
		for _, ref := range []control.Ref{blue, green} {
			b.must(filepath.WalkDir(folder(ref), func(path string, d fs.DirEntry, err error) error {
				if err != nil || d.IsDir() || filepath.Ext(path) != ".log" {
					return nil //nolint:nilerr // files come and go
				}
				text, err := os.ReadFile(path)
				logged = logged || strings.Contains(string(text), "create subscription orders_of_blue")
				if strings.Contains(string(text), word) {
					t.Errorf("%s has %q", path, word)
				}
				return err
			}))
		}
	}
	if !logged {
		t.Error("no statement is in a log: the search above proves nothing")
	}
}

// What the CRD refuses is refused without Kubernetes, too.
func TestRefusedPublications(t *testing.T) {
	objects := Admit(control.NewMemory())
	for fields, want := range map[string]string{
		`"publications": [{"name": "x", "database": "shop"}]`:                                                                                                 "name one of tables",
		`"publications": [{"name": "x", "database": "shop", "allTables": true, "tables": ["a"]}]`:                                                             "name one of tables",
		`"publications": [{"name": "X", "database": "shop", "allTables": true}]`:                                                                              "lower case",
		`"publications": [{"name": "x", "database": "shop", "tables": ["a.b.c"]}]`:                                                                            "is no table",
		`"publications": [{"name": "x", "database": "shop", "allTables": true, "operations": ["select"]}]`:                                                    "is none of insert",
		`"publications": [{"name": "x", "database": "shop", "allTables": true}, {"name": "x", "database": "shop", "allTables": true}]`:                        "declared twice",
		`"publications": [{"name": "x", "database": "shop", "allTables": true}], "parameters": {"wal_level": "replica"}`:                                      "wal_level is logical",
		`"publications": [{"name": "x", "database": "shop", "ensure": "absent"}], "parameters": {"wal_level": "replica"}`:                                     "",
		`"publications": [{"name": "x", "database": "shop", "allTables": true}, {"name": "x", "database": "web", "schemas": ["a.b"]}]`:                        "",
		`"subscriptions": [{"name": "x", "database": "shop"}]`:                                                                                                "name publications",
		`"subscriptions": [{"name": "pg_x", "database": "shop", "ensure": "absent"}]`:                                                                         "other slots",
		`"subscriptions": [{"name": "x", "database": "shop", "publications": ["p"], "from": {"host": "/tmp", "user": "u"}}]`:                                  "from.host",
		`"subscriptions": [{"name": "x", "database": "shop", "publications": ["p"], "from": {"host": "h", "user": "u", "sslMode": "allow"}}]`:                 "sslMode",
		`"subscriptions": [{"name": "x", "database": "shop", "publications": ["p"], "from": {"host": "h", "user": "u"}}]`:                                     "",
		`"subscriptions": [{"name": "x", "database": "shop", "ensure": "absent"}, {"name": "x", "database": "web", "ensure": "absent"}]`:                      "declared twice",
		`"subscriptions": [{"name": "x", "database": "shop", "publications": ["p"], "from": {"host": "::1", "user": "u", "port": 70000}}]`:                    "from.port",
		`"subscriptions": [{"name": "x", "database": "shop", "publications": ["p"], "from": {"host": "10.0.0.1", "port": 5433, "user": "u"}, "ensure": "x"}]`: "none of present",
	} {
		_, err := objects.Apply(t.Context(), control.Object{Ref: blue, Spec: json.RawMessage("{" + fields + "}")})
		if (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, not %q", fields, err, want)
		}
		if err == nil {
			objects = Admit(control.NewMemory())
		}
	}
}
