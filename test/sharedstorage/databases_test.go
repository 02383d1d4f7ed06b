package sharedstorage_test

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/pawl-dev/pawl/kube/api/v1alpha1"
)

// login reads a Secret for an application, and runs a query by it on the writer that the Service selects.
func (w *fixture) login(ctx context.Context, name, service, sql string) (text, password string, err error) {
	secret := &corev1.Secret{}
	if err := w.client.Get(ctx, client.ObjectKey{Namespace: w.namespace, Name: name}, secret); err != nil {
		return "", "", err
	}
	cfg, err := pgx.ParseConfig(string(secret.Data["uri"]))
	if err != nil {
		return "", "", errors.New("the uri cannot be read")
	}
	if want := service + "-rw." + w.namespace; cfg.Host != want || string(secret.Data["host"]) != want || !strings.HasPrefix(string(secret.Data["pgpass"]), want+":5432:"+cfg.Database+":"+cfg.User+":") {
		return "", "", fmt.Errorf("host %s, not %s", cfg.Host, want)
	}
	pods, err := w.routedPods(ctx, service, "rw")
	if err != nil || len(pods) != 1 {
		return "", "", fmt.Errorf("%d pods are writers: %w", len(pods), err)
	}
	cfg.Host, cfg.Fallbacks, cfg.TLSConfig = pods[0].Status.PodIP, nil, nil // the fake kubelet's pods have no route from Services, and their port is 5432
	conn, err := pgx.ConnectConfig(ctx, cfg)
	if err != nil {
		return "", "", err
	}
	defer conn.Close(ctx)
	err = conn.QueryRow(ctx, sql).Scan(&text)
	return text, cfg.Password, err
}

// An application gets its user, its database and its password from the start, never as superuser, and
// follows the fields and the Secrets.
func TestUsersAndDatabases(t *testing.T) {
	t.Parallel()
	w := newFixture(t)
	const head = "apiVersion: pawl.dev/v1alpha1\nkind: SharedStorageCluster\nmetadata: {name: shop}\nspec: {readers: 0, storage: {size: 1Gi, onDelete: Delete}"
	w.applyText(head + "}\n")
	w.awaitRunning("shop", 0, nil)
	ready := func(reason, message string) {
		t.Helper()
		w.await(time.Minute, "DatabasesReady is "+reason, func(ctx context.Context) error {
			c, err := w.cluster(ctx, "shop")
			if err != nil {
				return err
			}
			at := meta.FindStatusCondition(c.Status.Conditions, "DatabasesReady")
			if at == nil || at.Reason != reason || !strings.Contains(at.Message, message) || at.ObservedGeneration != c.Generation {
				return fmt.Errorf("%+v", at)
			}
			return nil
		})
	}
	const who = "SELECT current_user || ' ' || current_database() || ' ' || rolsuper || rolcreaterole FROM pg_roles WHERE rolname = current_user"
	first := ""
	w.await(time.Minute, "the user app logs in", func(ctx context.Context) error {
		text, password, err := w.login(ctx, "shop-app", "shop", who)
		if first = password; err == nil && text != "app app falsefalse" {
			err = errors.New(text)
		}
		return err
	})
	ready("AsWanted", "")

	// Somebody changes the password in the Secret: the database and the URI follow at once.
	w.kubectl("patch", "secret", "shop-app", "-p", `{"data":{"password":"`+base64.StdEncoding.EncodeToString([]byte("ne:w/1 ?"))+`"}}`)
	w.await(20*time.Second, "the password is rotated", func(ctx context.Context) error {
		_, password, err := w.login(ctx, "shop-app", "shop", who)
		if err == nil && password != "ne:w/1 ?" {
			err = errors.New("the uri has the former password")
		}
		return err
	})

	// A Secret that is missing is a condition and an Event, until somebody makes it.
	w.applyText(head + `, users: [{name: app}, {name: web_1, inRoles: [pg_read_all_data], password: {secret: {name: web, key: password}}}], databases: [{name: app, owner: app}, {name: web, owner: web_1}]}` + "\n")
	ready("PasswordMissing", "user web_1: there is no Secret web")
	w.await(20*time.Second, "the Event", func(context.Context) error {
		if out := w.kubectl("get", "events", "-o", "jsonpath={.items[*].reason}"); !strings.Contains(out, "PasswordMissing") || !strings.Contains(out, "DatabasesChanged") {
			return errors.New(out)
		}
		return nil
	})
	w.kubectl("create", "secret", "generic", "web", "--from-literal=password=given")
	ready("AsWanted", "")
	var c *v1alpha1.SharedStorageCluster
	w.await(20*time.Second, "the status lists both", func(ctx context.Context) (err error) {
		if c, err = w.cluster(ctx, "shop"); err == nil && (len(c.Status.Databases.Users) != 2 || len(c.Status.Databases.Databases) != 2) {
			err = fmt.Errorf("%+v", c.Status.Databases)
		}
		return err
	})
	if u := c.Status.Databases.Users; u[0].Credentials != "shop-app" || u[1].Credentials != "" || u[1].Name != "web_1" {
		t.Errorf("%+v", u)
	}
	text, err := os.ReadFile(w.log)
	if err != nil {
		t.Fatal(err)
	}
	for _, word := range []string{first, "ne:w/1", "SCRAM-SHA-256$"} {
		if strings.Contains(string(text), word) {
			t.Errorf("the operator's log has %q", word)
		}
	}

	for n, c := range []struct{ fields, want string }{
		{"users: [{name: x, superuser: true}]", "no user of an application is a superuser"},
		{"users: [{name: x, createrole: true}]", "as good as a superuser"},
		{"users: [{name: x, inRoles: [pg_execute_server_program]}]", "as good as a superuser"},
		{"users: [{name: x}, {name: x}]", "Duplicate value"},
		{"users: [{name: postgres}]", "PostgreSQL's own"},
		{"users: [{name: pg_x}]", "PostgreSQL's own"},
		{"users: [{name: my_auth}]", "the Secrets of clusters"},
		{"users: [{name: 'X;'}]", "should match"},
		{"users: [{name: x, validUntil: soon}]", "date-time"},
		{"databases: [{name: x}]", "name the user that owns"},
		{"databases: [{name: x, owner: postgres}]", "a user of an application"},
		{"databases: [{name: template1, owner: x}]", "PostgreSQL's own"},
		{"databases: [{name: x, owner: x}, {name: x, owner: x}]", "Duplicate value"},
		{"users: [{name: x, ensure: absent}], databases: [{name: x, ensure: absent}]", ""},
	} {
		file := filepath.Join(t.TempDir(), fmt.Sprint(n, ".yaml"))
		if err := os.WriteFile(file, []byte("apiVersion: pawl.dev/v1alpha1\nkind: SharedStorageCluster\nmetadata: {name: other}\nspec: {"+c.fields+"}\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		out, err := w.try("create", "--dry-run=server", "-f", file)
		if (err == nil) != (c.want == "") || !strings.Contains(out, c.want) {
			t.Errorf("%s: %v %s", c.fields, err, out)
		}
	}
}
