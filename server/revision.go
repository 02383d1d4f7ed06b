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

// etag is the revision as HTTP writes it.
func etag(revision int64) string { return `"` + strconv.FormatInt(revision, 10) + `"` }

// anyRevision is what If-Match: * asks for.
const anyRevision int64 = 0

// revisionOf reads an If-Match: one ETag of ours, or *. given is false without the header.
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
	if err != nil || revision <= 0 || strconv.FormatInt(revision, 10) != text { // "+1" and "01" are no ETags of ours
		return 0, true, Malformed.Errorf("If-Match: %s is not one ETag of this server", header)
	}
	return revision, true, nil
}

// needRevision is revisionOf where the header is required.
func needRevision(header string) (int64, error) {
	revision, given, err := revisionOf(header)
	if err == nil && !given {
		err = RevisionMissing.Errorf("If-Match is missing")
	}
	return revision, err
}

// failMatch is fail for a request that carried a condition: a lost
// compare-and-swap is then 412 instead of 409.
func failMatch(ctx context.Context, conditional bool, err error) error {
	if !conditional || fault.Of(err) != fault.WriteConflict {
		return fail(ctx, err)
	}
	p := *view.ProblemOf(err)
	p.Status = http.StatusPreconditionFailed
	return fail(ctx, &p)
}

// failRun is failMatch for a request to a run, which the problem then names.
func failRun(ctx context.Context, run string, conditional bool, err error) error {
	p := problemOf(ctx, err)
	p.Run = run
	return failMatch(ctx, conditional, p)
}

func conflictOf(r *workflow.Run, wanted int64) error {
	return fault.WriteConflict.Errorf("run %s is at revision %d, not %d", r.ID, r.Revision, wanted).With("revision", r.Revision)
}

// cursorError is the error of a list. What is invalid about a list with a cursor is the cursor.
func cursorError(cursor string, err error) error {
	if cursor != "" && fault.Of(err).Class == fault.Invalid {
		return CursorInvalid.Errorf("cursor %q: %s", cursor, fault.Message(err))
	}
	return err
}
