package server

import (
	"context"
	"net/http"
	"strconv"
	"strings"

	"github.com/pawl-dev/pawl/fault"
	"github.com/pawl-dev/pawl/view"
	"github.com/pawl-dev/pawl/workflow"
)

// etag returns the ETag of a revision.
func etag(revision int64) string { return `"` + strconv.FormatInt(revision, 10) + `"` }

// anyRevision is the revision of If-Match: *.
const anyRevision int64 = 0

// revisionOf parses an If-Match: one ETag of this server, or *. given is false without the header.
func revisionOf(header string) (revision int64, given bool, err error) {
	header = strings.TrimSpace(header)
	switch header {
	case "":
		return 0, false, nil
	case "*":
		return anyRevision, true, nil
	}
	text := strings.TrimPrefix(header, "W/")
	if len(text) > 2 && text[0] == '"' && text[len(text)-1] == '"' {
		text = text[1 : len(text)-1]
	}
	revision, err = strconv.ParseInt(text, 10, 64)
	if err != nil || revision <= 0 || strconv.FormatInt(revision, 10) != text { // this server writes neither "+1" nor "01"
		return 0, true, Malformed.Errorf("If-Match: %s is not one ETag of this server", header)
	}
	return revision, true, nil
}

// requireRevision is revisionOf where the header is required.
func requireRevision(header string) (int64, error) {
	revision, given, err := revisionOf(header)
	if err == nil && !given {
		err = RevisionMissing.Errorf("If-Match is missing")
	}
	return revision, err
}

// failMatch is fail for a request that may have a condition: with one, a write conflict
// is status 412 instead of 409.
func failMatch(ctx context.Context, conditional bool, err error) error {
	if !conditional || fault.Of(err) != fault.WriteConflict {
		return fail(ctx, err)
	}
	p := *view.ProblemOf(err)
	p.Status = http.StatusPreconditionFailed
	return fail(ctx, &p)
}

// failRun is failMatch for a request to a run; the problem names the run.
func failRun(ctx context.Context, run string, conditional bool, err error) error {
	p := problemOf(ctx, err)
	p.Run = run
	return failMatch(ctx, conditional, p)
}

func conflictOf(r *workflow.Run, expected int64) error {
	return fault.WriteConflict.Errorf("run %s is at revision %d, not %d", r.ID, r.Revision, expected).With("revision", r.Revision)
}

// cursorError returns the error of a list. If the request has a cursor, an invalid request means an invalid cursor.
func cursorError(cursor string, err error) error {
	if cursor != "" && fault.Of(err).Class == fault.Invalid {
		return CursorInvalid.Errorf("cursor %q: %s", cursor, fault.Message(err))
	}
	return err
}
