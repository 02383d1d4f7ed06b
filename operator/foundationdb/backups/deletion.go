package backups

import (
	"context"
	"slices"
	"strings"

	"github.com/pawl-dev/pawl/chain"
	"github.com/pawl-dev/pawl/fdb"
	"github.com/pawl-dev/pawl/kube/api/fdb/v1beta2"
	"github.com/pawl-dev/pawl/operator/foundationdb"
	"github.com/pawl-dev/pawl/outcome"
)

// ends reports whether the deletion of the object ends the backup: its policy says so, the object still holds its
// finalizer, and the tag is its own.
func (p *pass) ends() bool {
	return slices.Contains(p.backup.Finalizers, Finalizer) && p.needsFinalizer() && p.owner() == ""
}

// abortBackup ends the backup at once. While it is not known whether it runs, the object stays. In a cluster that is
// gone, or was never made, nothing runs.
func abortBackup(p *pass) chain.Decision[*pass] {
	switch {
	case !p.ends() || p.unmade:
		return nothing()
	case p.silence != nil:
		d := waits(p.silence)
		d.Outcome = outcome.Wait(retry, d.Outcome.Reason(), "the backup %s may still run: %s", p.tag(), d.Outcome.Message())
		return d
	case !p.live.State.Running():
		return nothing()
	}
	return decided(effect{
		name: "abort backup", target: p.tag(), call: fdb.AbortBackup(p.tag()), blocks: true,
		event: "BackupAborted", told: "aborted the backup " + p.tag() + ", since its object is deleted",
		assume: func(p *pass) { p.live.State = fdb.BackupAborted },
	})
}

// deleteBackup deletes what the backup has written. One call deletes for a limited time, so that the backup of another
// cluster does not wait for it; the next pass goes on where it has ended.
func deleteBackup(p *pass) chain.Decision[*pass] {
	if !p.ends() || p.backup.Spec.DeletionPolicy != v1beta2.BackupDeletionCleanup {
		return nothing()
	}
	if p.url == "" {
		return waits(foundationdb.SpecInvalid.Errorf("spec.blobStoreConfiguration has no URL, so nothing can be deleted"))
	}
	if user := p.user(); user != "" {
		return waits(StillUsed.Errorf("%s uses %s", user, p.url))
	}
	if p.at.Version == (fdb.Version{}) {
		v, err := fdb.ParseVersion(p.backup.Spec.Version)
		if err != nil {
			return waits(err)
		}
		p.at.Version = v
	}
	call := fdb.DeleteBackup(p.url)
	call.Timeout = p.options.DeleteTime
	return decided(effect{
		name: "delete backup", target: p.url, call: call, blocks: true,
		event: "BackupDeleted", told: "deleted what the backup has written to " + p.url,
	})
}

// user is another object that needs what stands at the URL; empty: none.
func (p *pass) user() string {
	for _, other := range p.others {
		if url, _, err := foundationdb.BackupStore(other.Spec.BlobStoreConfiguration, other.Name); err == nil && place(url) == place(p.url) && managed(&other) && other.DeletionTimestamp == nil {
			return "the backup " + other.Name
		}
	}
	for _, r := range p.readers {
		if url, _, err := foundationdb.BackupStore(r.Spec.BlobStoreConfiguration, r.Name); err == nil && place(url) == place(p.url) {
			return "the restore " + r.Name
		}
	}
	return ""
}

// removeFinalizer lets the object go.
func removeFinalizer(p *pass) chain.Decision[*pass] {
	if !slices.Contains(p.backup.Finalizers, Finalizer) {
		return nothing()
	}
	act := finalizerAct(false)
	remove := act.Do
	act.Do = func(ctx context.Context, p *pass) outcome.Outcome {
		out := remove(ctx, p)
		p.gone = out.IsDone() && len(p.backup.Finalizers) == 0
		return out
	}
	return chain.Decision[*pass]{Acts: []chain.Act[*pass]{act}}
}

// place names what a URL leads to: of its parameters only the bucket says where.
func place(url string) string {
	plain, query, _ := strings.Cut(url, "?")
	for parameter := range strings.SplitSeq(query, "&") {
		if strings.HasPrefix(parameter, "bucket=") {
			plain += "?" + parameter
		}
	}
	return plain
}
