package tool

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/pawl-dev/pawl/fault"
	"github.com/pawl-dev/pawl/fdb"
	"github.com/pawl-dev/pawl/operator/foundationdb/port"
)

// Database is port.Database by executables. Its methods may be called at the same time.
type Database struct {
	options Options
	root    string        // the folders of calls
	held    *os.File      // the lock on root
	slots   chan struct{} // an element for each tool that runs

	closing context.Context // ends with Close
	close   context.CancelFunc

	mu      sync.Mutex
	closed  bool
	running sync.WaitGroup
	learned map[string]fdb.Connection // what a tool has written into the cluster file that it was given
	unread  map[string]bool           // lines of versions of which it was said that their texts are not known
}

var _ port.Database = (*Database)(nil)

// New returns a Database. It needs no tools yet; it fails if its folders cannot be made.
func New(o Options) (*Database, error) {
	o, err := o.withDefaults()
	if err != nil {
		return nil, err
	}
	if o.LogDir != "" {
		if err := os.MkdirAll(o.LogDir, 0o755); err != nil {
			return nil, err
		}
	}
	root, held, err := newRoot(o.TempDir)
	if err != nil {
		return nil, err
	}
	d := &Database{
		options: o, root: root, held: held, slots: make(chan struct{}, o.Processes),
		learned: map[string]fdb.Connection{}, unread: map[string]bool{},
	}
	d.closing, d.close = context.WithCancel(context.Background())
	return d, nil
}

// Close ends all tools, waits until they are gone, and removes what they left. Later calls are refused.
func (d *Database) Close() error {
	d.mu.Lock()
	d.closed = true
	d.mu.Unlock()
	d.close()
	d.running.Wait()
	defer d.held.Close()
	return os.RemoveAll(d.root)
}

// Versions are the lines of versions of which fdbcli is there, the oldest first.
func (d *Database) Versions() []string {
	entries, err := os.ReadDir(d.options.Folder)
	if err != nil {
		return nil // Status says what is missing
	}
	var versions []fdb.Version
	for _, entry := range entries {
		v, err := fdb.ParseVersion(entry.Name() + ".0")
		if err == nil && v.Short() == entry.Name() && executable(filepath.Join(d.options.Folder, entry.Name(), string(fdb.ToolCLI))) == nil {
			versions = append(versions, v)
		}
	}
	slices.SortFunc(versions, fdb.Version.Compare)
	var lines []string
	for _, v := range versions {
		lines = append(lines, v.Short())
	}
	return lines
}

// program is the path of a tool. It fails with port.ToolsMissing.
func (d *Database) program(t fdb.Tool, v fdb.Version) (string, error) {
	folder := filepath.Join(d.options.Folder, v.Short())
	path := filepath.Join(folder, string(t))
	if err := executable(path); err != nil {
		return "", missing(t, folder, v, err)
	}
	return path, nil
}

func missing(t fdb.Tool, folder string, v fdb.Version, cause error) error {
	return port.ToolsMissing.Errorf("there is no %s in %s: add %s to foundationdb.versions of the chart (%w)", t, folder, v, cause).
		With("folder", folder).With("version", v.String())
}

func executable(path string) error {
	info, err := os.Stat(path)
	switch {
	case err != nil:
		return err
	case !info.Mode().IsRegular() || info.Mode().Perm()&0o111 == 0:
		return &fs.PathError{Op: "execute", Path: path, Err: fs.ErrPermission}
	default:
		return nil
	}
}

// Status implements port.Database. What fdbcli prints beside a whole document is not judged: a document
// speaks for itself, and what it lacks opens no gate.
func (d *Database) Status(ctx context.Context, at port.Endpoint, limit port.Limit) (*fdb.Status, error) {
	call := fdb.ReadStatus()
	call.Timeout = d.options.MaxTimeout
	if limit == port.Short {
		call.Timeout = d.options.Timeout
	}
	p, err := d.run(ctx, at, call)
	switch {
	case errors.Is(err, port.ToolsMissing):
		return nil, err
	case err != nil:
		return nil, port.DatabaseSilent.Errorf("fdbcli did not run: %w", err)
	case p.endless:
		return nil, fdb.StatusUnreadable.Errorf("the document has more than %d bytes", d.options.MaxStatus)
	case p.exit == 0 && bytes.IndexByte(p.stdout, '{') >= 0:
		return fdb.ParseStatus(p.stdout)
	case p.cause != nil:
		return nil, port.DatabaseSilent.Errorf("fdbcli printed no status: %w", p.cause)
	default:
		return nil, port.DatabaseSilent.Errorf("fdbcli printed no status: %s", d.judge(call, at.Version, p))
	}
}

// Run implements port.Database. The URL of a call may hold a secret: the tool gets it by a file. A call
// that cannot be started is Refused, with FdbToolsMissing, CommandRefused, ToolEnded, TimedOut or
// ToolFailed.
func (d *Database) Run(ctx context.Context, at port.Endpoint, call fdb.Call) port.Answer {
	if call.Command == fdb.CommandTransaction {
		return port.Answer{Result: fdb.Result{Outcome: fdb.Refused, Reason: fdb.CommandRefused, Text: "a transaction is run by Transact"}}
	}
	p, err := d.run(ctx, at, call)
	if err != nil {
		return port.Answer{Result: refused(err)}
	}
	return port.Answer{Result: d.judge(call, at.Version, p), Stdout: string(p.stdout)}
}

// refused is the result of a call of which no process was started.
func refused(err error) fdb.Result {
	r := fdb.Result{Outcome: fdb.Refused, Reason: fdb.ToolFailed, Text: fault.Message(err)}
	switch {
	case errors.Is(err, port.ToolsMissing):
		r.Reason = fdb.Reason(port.ToolsMissing.Reason())
	case errors.Is(err, fdb.WordInvalid):
		r.Reason = fdb.CommandRefused
	case errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded):
		r.Reason = endReason(err)
	}
	return r
}

// endReason is why a process was ended: at its deadline, or because nobody wants its answer any more.
func endReason(cause error) fdb.Reason {
	if errors.Is(cause, context.DeadlineExceeded) {
		return fdb.TimedOut
	}
	return fdb.ToolEnded
}

// printed is what a process left.
type printed struct {
	exit           int
	stdout, stderr []byte
	endless        bool  // it printed more than it may, and nothing was kept
	cause          error // why it was ended from outside
}

// run runs a call in a process. An error says that none was started.
func (d *Database) run(ctx context.Context, at port.Endpoint, call fdb.Call) (printed, error) {
	j, err := d.begin(ctx, at, call)
	if err != nil {
		return printed{}, err
	}
	defer j.end()
	limit := maxOutput
	if call.Command == fdb.CommandStatus {
		limit = d.options.MaxStatus
	}
	p, err := start(j.ctx, j.command(nil), limit)
	if err != nil {
		return printed{}, j.startError(err)
	}
	p.wait()
	got := printed{exit: p.exit, stdout: p.out.take(), stderr: p.err.take(), endless: p.out.over() || p.err.over()}
	if got.exit < 0 && j.ctx.Err() != nil {
		got.cause = context.Cause(j.ctx)
	}
	if got.endless {
		got.stdout, got.stderr = nil, nil
	}
	got.stdout, got.stderr = j.masked(got.stdout), j.masked(got.stderr)
	if got.exit == 0 {
		j.learn()
	} else {
		j.forget()
	}
	return got, nil
}

// judge says what is known of the effect of a call.
func (d *Database) judge(call fdb.Call, v fdb.Version, p printed) fdb.Result {
	if p.endless {
		return fdb.Result{Reason: fdb.UnknownText, Text: fmt.Sprintf("%s printed without end and was ended", call.Tool())}
	}
	d.tellUnread(v)
	r := fdb.Judge(call, v, p.exit, string(p.stdout), string(p.stderr))
	if p.cause != nil && r.Reason == fdb.ToolEnded {
		r.Reason, r.Text = endReason(p.cause), p.cause.Error()
	}
	return r
}

// tellUnread says once that the texts of a line of versions are not known.
func (d *Database) tellUnread(v fdb.Version) {
	line, known := fdb.TextLine(v)
	if known {
		return
	}
	d.mu.Lock()
	told := d.unread[v.Short()]
	d.unread[v.Short()] = true
	d.mu.Unlock()
	if !told {
		d.options.Log.Warn("the texts of this version of FoundationDB are not known: those of another one are taken", "version", v.Short(), "texts", line)
	}
}

// job is one process to be: its slot, its folder, its arguments and its deadline.
type job struct {
	d       *Database
	at      port.Endpoint
	call    fdb.Call
	path    string
	argv    []string
	dir     string
	given   fdb.Connection  // the first content of the cluster file
	secrets []string        // that must not be shown
	ctx     context.Context // ends at the deadline, with the caller's context and with Close
	release []func()        // in reverse order
}

var errClosed = fmt.Errorf("the operator ends: %w", context.Canceled)

// begin prepares a process. Whoever gets a job ends it.
func (d *Database) begin(ctx context.Context, at port.Endpoint, call fdb.Call) (j *job, err error) {
	j = &job{d: d, at: at, call: call}
	defer func() {
		if err != nil {
			j.end()
			j = nil
		}
	}()
	if j.path, err = d.program(call.Tool(), at.Version); err != nil {
		return j, err
	}
	var credentials []byte
	j.call, credentials, j.secrets = withoutSecret(call)
	if err := j.call.Check(); err != nil {
		return j, err
	}
	if err := d.enter(); err != nil {
		return j, err
	}
	j.release = append(j.release, d.running.Done)
	caller, cancel := context.WithCancelCause(ctx)
	stop := context.AfterFunc(d.closing, func() { cancel(errClosed) })
	j.release = append(j.release, func() { stop(); cancel(nil) })
	select {
	case d.slots <- struct{}{}:
	case <-caller.Done():
		return j, fmt.Errorf("it waited for one of %d tools to end: %w", d.options.Processes, context.Cause(caller))
	}
	j.release = append(j.release, func() { <-d.slots })
	if d.closing.Err() != nil { // the slot is free because Close has ended another tool
		return j, errClosed
	}
	if err := j.makeFolder(credentials); err != nil {
		return j, err
	}
	j.release = append(j.release, func() { os.RemoveAll(j.dir) })
	var limit time.Duration
	j.argv, limit = d.options.timed(j.call).Arguments()
	within, end := context.WithTimeoutCause(caller, limit, fmt.Errorf("%s was ended after %s: %w", call.Tool(), limit, context.DeadlineExceeded))
	j.ctx, j.release = within, append(j.release, end)
	if within.Err() != nil {
		return j, context.Cause(within)
	}
	if call.Reads() {
		return j, nil
	}
	return j, d.options.Allowed()
}

// enter counts a call that Close waits for.
func (d *Database) enter() error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.closed {
		return errClosed
	}
	d.running.Add(1)
	return nil
}

func (j *job) end() {
	for _, release := range slices.Backward(j.release) {
		release()
	}
	j.release = nil
}

// startError tells a tool that is missing from other trouble.
func (j *job) startError(err error) error {
	for _, no := range []error{fs.ErrNotExist, fs.ErrPermission, syscall.ENOEXEC} {
		if errors.Is(err, no) { // also the loader of a dynamic program
			return missing(j.call.Tool(), filepath.Dir(j.path), j.at.Version, err)
		}
	}
	return err
}

// firstLine is the first line that says something.
func firstLine(texts ...string) string {
	for line := range strings.Lines(strings.Join(texts, "\n")) {
		if line = strings.TrimSpace(line); line != "" {
			return strings.ToValidUTF8(line[:min(len(line), 300)], "?")
		}
	}
	return ""
}
