package etcdproc

import (
	"context"
	"fmt"
	"net"
	"slices"
	"strconv"
	"sync"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"
	"google.golang.org/grpc"
)

const (
	writeInterval = 5 * time.Millisecond // between two writes: real load, and a quiet machine
	writeTimeout  = time.Second          // then the result of a write is unknown
	pageSize      = 1000                 // keys read at once
)

// Writer puts one key after another and remembers which were acknowledged.
type Writer struct {
	client *clientv3.Client
	stop   context.CancelFunc
	done   chan struct{}

	mu      sync.Mutex
	changed chan struct{} // closed and replaced at each acknowledgement
	report  Report
	lastAck time.Time
}

// Report is the result of a Writer.
type Report struct {
	Prefix  string        // of all keys; the key of number n is Key(n), its value n
	Acked   []int         // numbers of the acknowledged keys, rising
	Unknown int           // writes without an answer: they may exist or not
	LastErr error         // of the newest write without an answer
	Gap     time.Duration // the longest time between two acknowledgements
}

// Key returns the key of a number.
func (r Report) Key(n int) string { return fmt.Sprintf("%s%09d", r.Prefix, n) }

// StartWriter starts to write to the members at the endpoints and returns once
// the first key is acknowledged, or fails the test after 30 seconds. Endpoints may be
// those of members that do not run yet. The test's end stops it.
func StartWriter(t testing.TB, endpoints ...string) *Writer {
	t.Helper()
	w, err := NewWriter("/acked/"+t.Name()+"/", endpoints...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(w.Close)
	w.WaitAcked(t, 1)
	return w
}

// NewWriter is StartWriter for use outside of tests: it does not wait, and Close ends it.
func NewWriter(prefix string, endpoints ...string) (*Writer, error) {
	return NewWriterThrough(nil, prefix, endpoints...)
}

// NewWriterThrough is NewWriter with connections of its own.
func NewWriterThrough(dial Dial, prefix string, endpoints ...string) (*Writer, error) {
	client, err := NewClient(dial, endpoints...)
	if err != nil {
		return nil, err
	}
	ctx, stop := context.WithCancel(context.Background())
	w := &Writer{
		client: client, stop: stop, done: make(chan struct{}),
		report: Report{Prefix: prefix}, changed: make(chan struct{}),
	}
	go w.run(ctx, w.report)
	return w, nil
}

// Close stops writing and closes the connections.
func (w *Writer) Close() {
	w.Stop()
	w.client.Close()
}

func (w *Writer) run(ctx context.Context, names Report) {
	defer close(w.done)
	pace := time.NewTicker(writeInterval)
	defer pace.Stop()
	for n := 1; ; n++ {
		select {
		case <-ctx.Done():
			return
		case <-pace.C:
		}
		w.note(n, w.put(ctx, names.Key(n), n))
	}
}

func (w *Writer) put(ctx context.Context, key string, n int) error {
	ctx, cancel := context.WithTimeout(ctx, writeTimeout)
	defer cancel()
	_, err := w.client.Put(ctx, key, strconv.Itoa(n))
	return err
}

func (w *Writer) note(n int, err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if err != nil {
		w.report.Unknown++
		w.report.LastErr = err
		return
	}
	now := time.Now()
	if !w.lastAck.IsZero() {
		w.report.Gap = max(w.report.Gap, now.Sub(w.lastAck))
	}
	w.lastAck = now
	w.report.Acked = append(w.report.Acked, n)
	close(w.changed)
	w.changed = make(chan struct{})
}

// Lost returns which acknowledged keys are not there; see Report.Lost.
func (w *Writer) Lost(ctx context.Context) ([]int, error) { return w.Report().Lost(ctx, w.client) }

// SetEndpoints names the members to write to from now on.
func (w *Writer) SetEndpoints(endpoints ...string) { w.client.SetEndpoints(endpoints...) }

// Report returns the results so far.
func (w *Writer) Report() Report {
	w.mu.Lock()
	defer w.mu.Unlock()
	r := w.report
	r.Acked = slices.Clone(r.Acked)
	return r
}

// WaitAcked waits until n more writes are acknowledged, and fails the test when
// that takes longer than 30 seconds.
func (w *Writer) WaitAcked(t testing.TB, n int) {
	t.Helper()
	limit := time.NewTimer(30 * time.Second)
	defer limit.Stop()
	for goal := -1; ; {
		w.mu.Lock()
		acked, changed, lastErr := len(w.report.Acked), w.changed, w.report.LastErr
		w.mu.Unlock()
		if goal < 0 {
			goal = acked + n
		}
		if acked >= goal {
			return
		}
		select {
		case <-changed:
		case <-limit.C:
			t.Fatalf("etcd acknowledged %d of %d writes in 30s; the last error: %v", acked-goal+n, n, lastErr)
		}
	}
}

// Stop stops writing and returns the final report.
func (w *Writer) Stop() Report {
	w.stop()
	<-w.done
	return w.Report()
}

// NoneLost fails the test unless every acknowledged key is there, with its
// value, in a linearizable read.
func (r Report) NoneLost(t testing.TB, endpoints ...string) {
	t.Helper()
	if len(r.Acked) == 0 {
		t.Fatal("no write was acknowledged: nothing is proved")
	}
	client := connect(t, endpoints)
	defer client.Close()
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	lost, err := r.Lost(ctx, client)
	switch {
	case err != nil:
		t.Fatalf("reading the keys back: %v", err)
	case len(lost) > 0:
		t.Errorf("%d of %d acknowledged keys are lost, the first is %s", len(lost), len(r.Acked), r.Key(lost[0]))
	default:
		t.Logf("%d acknowledged keys are all there; %d writes had no answer; the longest gap was %s", len(r.Acked), r.Unknown, r.Gap.Round(time.Millisecond))
	}
}

// Lost returns the numbers of the acknowledged keys that are not there, or not
// with their value.
func (r Report) Lost(ctx context.Context, client *clientv3.Client) ([]int, error) {
	found, err := read(ctx, client, r.Prefix)
	if err != nil {
		return nil, err
	}
	return slices.DeleteFunc(slices.Clone(r.Acked), func(n int) bool {
		return found[r.Key(n)] == strconv.Itoa(n)
	}), nil
}

// read returns all keys below a prefix, page by page, as of one revision.
func read(ctx context.Context, client *clientv3.Client, prefix string) (map[string]string, error) {
	found := map[string]string{}
	end := clientv3.GetPrefixRangeEnd(prefix)
	for from, revision := prefix, int64(0); ; {
		page, err := client.Get(ctx, from, clientv3.WithRange(end), clientv3.WithLimit(pageSize), clientv3.WithRev(revision))
		if err != nil {
			return nil, err
		}
		for _, kv := range page.Kvs {
			found[string(kv.Key)] = string(kv.Value)
			from = string(kv.Key) + "\x00"
		}
		if revision = page.Header.Revision; !page.More {
			return found, nil
		}
	}
}

func connect(t testing.TB, endpoints []string) *clientv3.Client {
	t.Helper()
	client, err := NewClient(nil, endpoints...)
	if err != nil {
		t.Fatal(err)
	}
	return client
}

// NewClient returns a client without a log.
func NewClient(dial Dial, endpoints ...string) (*clientv3.Client, error) {
	config := clientv3.Config{Endpoints: endpoints, DialTimeout: 5 * time.Second, Logger: zap.NewNop()}
	if dial != nil {
		config.DialOptions = append(config.DialOptions, grpc.WithContextDialer(func(ctx context.Context, address string) (net.Conn, error) {
			return dial(ctx, "tcp", address)
		}))
	}
	client, err := clientv3.New(config)
	if err != nil {
		return nil, fmt.Errorf("an etcd client for %v: %w", endpoints, err)
	}
	return client, nil
}
