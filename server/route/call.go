package route

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"net/http"

	"github.com/pawl-dev/pawl/fault"
)

// Call is a request in progress: what the stages before its route found out, and what
// its route leaves for those behind it.
type Call struct {
	Route *Route
	Path  string
	Who   Principal
	Key   string       // Idempotency-Key
	Admit func() error // takes the slot when the caller is identified; nil: it has one

	// Of If-Match, for routes that declare it. Revision is AnyRevision without the header too.
	Revision    int64
	Conditional bool

	Code   fault.Code // of the problem in the answer
	Target string     // changed object, for the audit trail; empty: the path
	Replay []byte     // answer to a repetition; nil: the same answer

	ifMatch string
}

type callKey struct{}

// Begin returns the request with a new Call.
func Begin(r *http.Request, declared *Route) (*http.Request, *Call) {
	c := &Call{Route: declared, Path: r.URL.Path, ifMatch: r.Header.Get("If-Match")}
	return r.WithContext(context.WithValue(r.Context(), callKey{}, c)), c
}

// CallOf returns the request in progress.
func CallOf(ctx context.Context) *Call {
	if c, ok := ctx.Value(callKey{}).(*Call); ok {
		return c
	}
	return &Call{Route: &Route{}}
}

// RequestID returns the engine's request id for an Idempotency-Key; empty without a key.
// Repetitions are one request of the engine too, even if the server dies after the
// engine's write and before the answer is stored.
func (c *Call) RequestID() string {
	if c.Key == "" {
		return ""
	}
	return "key:" + cmp.Or(c.Who.Account, c.Who.Name) + ":" + c.Key
}

// JobID returns a job id that depends on the Idempotency-Key: requests with one key
// are one job, even if the server dies after it has written the job and before it has
// stored the answer. It is empty without a key.
func (c *Call) JobID() string {
	if c.Key == "" {
		return ""
	}
	sum := sha256.Sum256([]byte(c.RequestID() + "\x00" + c.Path))
	h := hex.EncodeToString(sum[:16])
	return h[:8] + "-" + h[8:12] + "-8" + h[13:16] + "-a" + h[17:20] + "-" + h[20:32]
}

// Admit takes a slot for a request whose route identifies the caller itself. The route
// calls it after it has identified the caller and before it works for the caller.
// SERVER_BUSY.
func Admit(ctx context.Context) error {
	if c := CallOf(ctx); c.Admit != nil {
		return c.Admit()
	}
	return nil
}
