package sharedstorage_test

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"k8s.io/apimachinery/pkg/api/meta"
)

// Rows of one cluster arrive in another by fields and Secrets alone, and the password of the subscription
// is rotated with its Secret.
func TestPublicationsAndSubscriptions(t *testing.T) {
	if testing.Short() {
		t.Skip("long: make test-long runs it")
	}
	t.Parallel()
	w := newFixture(t)
	const head = "apiVersion: pawl.dev/v1alpha1\nkind: SharedStorageCluster\nmetadata: {name: %s}\nspec: {readers: 0, storage: {size: 1Gi, onDelete: Delete}, %s}\n"
	w.applyText(fmt.Sprintf(head, "blue", "users: [{name: shop}, {name: copier, replication: true, inRoles: [pg_read_all_data]}], databases: [{name: shop, owner: shop}], publications: [{name: orders, database: shop, schemas: [public]}]"))
	w.awaitRunning("blue", 0, nil)
	ready := func(name, kind, reason, message string) {
		t.Helper()
		w.await(2*time.Minute, name+" "+kind+" "+reason, func(ctx context.Context) error {
			c, err := w.cluster(ctx, name)
			if err != nil {
				return err
			}
			at := meta.FindStatusCondition(c.Status.Conditions, kind)
			if at == nil || at.Reason != reason || !strings.Contains(at.Message, message) || at.ObservedGeneration != c.Generation {
				return fmt.Errorf("%+v", at)
			}
			return nil
		})
	}
	// as runs a statement as the user shop, and awaits what it gives.
	as := func(name, sql, want string) {
		t.Helper()
		w.await(time.Minute, name+": "+sql, func(ctx context.Context) error {
			text, _, err := w.login(ctx, name+"-shop", name, sql)
			if errors.Is(err, pgx.ErrNoRows) {
				err = nil
			}
			if err == nil && text != want {
				err = fmt.Errorf("%q, not %q", text, want)
			}
			return err
		})
	}
	ready("blue", "PublicationsReady", "AsWanted", "")
	as("blue", "SHOW wal_level", "logical")
	const table = "CREATE TABLE IF NOT EXISTS orders (id int PRIMARY KEY)"
	as("blue", table, "")
	as("blue", "WITH made AS (INSERT INTO orders SELECT generate_series(1, 100) RETURNING 1) SELECT count(*)::text FROM made", "100")

	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	pods, err := w.routedPods(ctx, "blue", "rw")
	if err != nil || len(pods) != 1 {
		t.Fatalf("%d pods are writers: %v", len(pods), err)
	}
	// The fake kubelet's pods have no route from Services: its pods have addresses only.
	w.applyText(fmt.Sprintf(head, "green", "users: [{name: shop}], databases: [{name: shop, owner: shop}], subscriptions: [{name: orders, database: shop, publications: [orders], from: {host: \""+pods[0].Status.PodIP+"\", user: copier, password: {secret: {name: blue-copier, key: password}}}}]"))
	w.awaitRunning("green", 0, nil)
	ready("green", "SubscriptionsReady", "SubscriptionFailed", `relation "public.orders" does not exist`)
	as("green", table, "")
	ready("green", "SubscriptionsReady", "AsWanted", "")
	as("green", "SELECT count(*)::text FROM orders", "100")
	as("blue", "WITH made AS (INSERT INTO orders SELECT generate_series(101, 150) RETURNING 1) SELECT count(*)::text FROM made", "50")
	as("green", "SELECT count(*)::text FROM orders", "150")
	w.await(time.Minute, "the status", func(ctx context.Context) error {
		c, err := w.cluster(ctx, "green")
		if err == nil && (len(c.Status.Subscriptions) != 1 || c.Status.Subscriptions[0].State != "Streaming" || c.Status.Subscriptions[0].LagBytes == nil) {
			err = fmt.Errorf("%+v", c.Status.Subscriptions)
		}
		return err
	})

	compared := func(code int, want string) {
		t.Helper()
		w.await(time.Minute, "compare says "+want, func(context.Context) error {
			out, said, got := w.pawl("pg", "compare", "green", "orders", "blue")
			if got != code || strings.Join(strings.Fields(out), " ") != "TABLE PUBLISHED SUBSCRIBED ROWS public.orders "+want {
				return fmt.Errorf("%d %s %s", got, out, said)
			}
			return nil
		})
	}
	compared(0, "150 150 the same")
	as("green", "UPDATE orders SET id = 1000 WHERE id = 3 RETURNING 'changed'", "changed")
	compared(4, "150 150 differ")
	as("green", "UPDATE orders SET id = 3 WHERE id = 1000 RETURNING 'back'", "back")

	// The password changes in the Secret of the publisher: both sides follow.
	w.kubectl("patch", "secret", "blue-copier", "-p", `{"data":{"password":"`+base64.StdEncoding.EncodeToString([]byte("an other ' one"))+`"}}`)
	w.await(3*time.Minute, "both have the new password", func(ctx context.Context) error {
		text, err := os.ReadFile(w.log)
		if err == nil && strings.Count(w.kubectl("get", "events", "-o", "jsonpath={.items[*].message}"), "connection of subscription orders of shop") == 0 {
			err = errors.New("the connection of the subscription is as before")
		}
		for _, word := range []string{"an other ' one", "dbname='"} {
			if strings.Contains(string(text), word) {
				t.Errorf("the operator's log has %q", word)
			}
		}
		return err
	})
	ready("green", "SubscriptionsReady", "AsWanted", "")

	// What is dropped is dropped on both sides.
	w.kubectl("patch", "ssc", "green", "--type=merge", "-p", `{"spec":{"subscriptions":[{"name":"orders","database":"shop","ensure":"absent"}]}}`)
	ready("green", "SubscriptionsReady", "AsWanted", "")
	as("blue", "SELECT count(*)::text FROM pg_replication_slots WHERE slot_type = 'logical'", "0")
}
