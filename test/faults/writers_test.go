package faults_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// writeProbes continuously tries to commit rows on every instance of a cluster, whatever
// its role. It records which commits were answered, and when an instance certainly
// accepted writes: from the answer to one row until the request of the next one in the
// same session.
type writeProbes struct {
	w    *fixture
	end  context.CancelFunc
	all  sync.WaitGroup
	once sync.Once

	mu       sync.Mutex
	password string
	next     int64
	answered []int64
	last     time.Time
	spans    []*writableSpan
}

// writableSpan is a period in which an instance accepted writes.
type writableSpan struct {
	pod      string
	from, to time.Time
}

func (w *fixture) watchWriters() *writeProbes {
	ctx, cancel := context.WithCancel(context.Background())
	ws := &writeProbes{w: w, end: cancel}
	ws.all.Go(func() {
		known := map[types.UID]context.CancelFunc{}
		for ctx.Err() == nil {
			pods, err := w.pods(ctx)
			there := map[types.UID]bool{}
			for _, pod := range pods {
				there[pod.UID] = true
				if known[pod.UID] == nil && pod.Status.PodIP != "" {
					probing, stop := context.WithCancel(ctx)
					known[pod.UID] = stop
					ws.all.Go(func() { ws.probe(probing, pod) })
				}
			}
			for uid, stop := range known {
				if err == nil && !there[uid] {
					stop()
					delete(known, uid)
				}
			}
			pause(ctx, 200*time.Millisecond)
		}
		for _, stop := range known {
			stop()
		}
	})
	return ws
}

func pause(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
	case <-timer.C:
	}
}

// probe writes to one instance, one session after the other.
func (ws *writeProbes) probe(ctx context.Context, pod corev1.Pod) {
	for ctx.Err() == nil {
		if conn, err := ws.connect(ctx, pod.Status.PodIP); err == nil {
			ws.session(ctx, conn, pod.Name)
			closing, cancel := context.WithTimeout(context.Background(), time.Second)
			_ = conn.Close(closing) // the server may be gone
			cancel()
		}
		pause(ctx, 100*time.Millisecond)
	}
}

func (ws *writeProbes) connect(ctx context.Context, address string) (*pgx.Conn, error) {
	ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
	defer cancel()
	ws.mu.Lock()
	password := ws.password
	ws.mu.Unlock()
	if password == "" {
		secret := &corev1.Secret{}
		if err := ws.w.client.Get(ctx, client.ObjectKey{Namespace: ws.w.namespace, Name: clusterName + "-auth"}, secret); err != nil {
			return nil, err
		}
		password = string(secret.Data["password"])
		ws.mu.Lock()
		ws.password = password
		ws.mu.Unlock()
	}
	config, err := pgx.ParseConfig(fmt.Sprintf("host=%s port=5432 user=postgres password=%s dbname=postgres sslmode=disable", address, password))
	if err != nil {
		return nil, err
	}
	return pgx.ConnectConfig(ctx, config)
}

const readOnly = "25006" // SQLSTATE of a write to a server in recovery

// session writes until the server is gone. A commit that was not answered may
// have happened: its number is not used again.
func (ws *writeProbes) session(ctx context.Context, conn *pgx.Conn, pod string) {
	var now *writableSpan
	exec := func(sql string, args ...any) error {
		ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
		defer cancel()
		_, err := conn.Exec(ctx, sql, args...)
		return err
	}
	created := false
	for ; ctx.Err() == nil; pause(ctx, 50*time.Millisecond) {
		if !created {
			err := exec("CREATE TABLE IF NOT EXISTS traffic (n bigint PRIMARY KEY, pod text)")
			if created = err == nil; !created {
				if refused(err) {
					continue
				}
				return
			}
		}
		ws.mu.Lock()
		ws.next++
		n := ws.next
		ws.mu.Unlock()
		asked := time.Now()
		if err := exec("INSERT INTO traffic VALUES ($1, $2)", n, pod); err != nil {
			if refused(err) {
				continue
			}
			return
		}
		ws.mu.Lock()
		ws.answered, ws.last = append(ws.answered, n), time.Now()
		if now == nil {
			now = &writableSpan{pod, ws.last, ws.last}
			ws.spans = append(ws.spans, now)
		} else {
			now.to = asked
		}
		ws.mu.Unlock()
	}
}

// refused reports the error of a running server that accepts no writes.
func refused(err error) bool {
	var e *pgconn.PgError
	return errors.As(err, &e) && e.Code == readOnly
}

func (ws *writeProbes) stop() {
	ws.once.Do(ws.end)
	ws.all.Wait()
}

// overlaps returns the periods in which two instances accepted writes at once.
func (ws *writeProbes) overlaps() (wrong []string) {
	ws.mu.Lock()
	defer ws.mu.Unlock()
	for i, a := range ws.spans {
		for _, b := range ws.spans[:i] {
			from, to := a.from, a.to
			if b.from.After(from) {
				from = b.from
			}
			if b.to.Before(to) {
				to = b.to
			}
			if a.pod != b.pod && from.Before(to) {
				wrong = append(wrong, fmt.Sprintf("%s and %s both took writes from %s, for %s", a.pod, b.pod, from.Format(time.StampMilli), to.Sub(from)))
			}
		}
	}
	return wrong
}

// rows waits until every instance has each answered row and another commit has been
// answered. It returns the number of rows.
func (ws *writeProbes) rows() int {
	ws.w.t.Helper()
	since := time.Now()
	var answered []int64
	ws.w.await(patience, "a row is committed", func(context.Context) error {
		ws.mu.Lock()
		defer ws.mu.Unlock()
		answered = append([]int64(nil), ws.answered...)
		if !ws.last.After(since) {
			return fmt.Errorf("the last of %d was answered %s ago", len(answered), time.Since(ws.last))
		}
		return nil
	})
	ws.w.await(patience, "each answered row is on each instance", func(ctx context.Context) error {
		pods, err := ws.w.pods(ctx)
		if err != nil {
			return err
		}
		for _, pod := range pods {
			there, err := ws.count(ctx, pod.Status.PodIP, answered)
			if err == nil && there != len(answered) {
				err = fmt.Errorf("%d of %d answered rows are not there", len(answered)-there, len(answered))
			}
			if err != nil {
				return fmt.Errorf("%s: %w", pod.Name, err)
			}
		}
		return nil
	})
	return len(answered)
}

func (ws *writeProbes) count(ctx context.Context, address string, rows []int64) (there int, err error) {
	conn, err := ws.connect(ctx, address)
	if err != nil {
		return 0, err
	}
	defer conn.Close(ctx)
	err = conn.QueryRow(ctx, "SELECT count(*) FROM traffic WHERE n = ANY($1)", rows).Scan(&there)
	return there, err
}
