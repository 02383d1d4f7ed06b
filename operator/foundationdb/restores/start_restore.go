package restores

import (
	"context"

	"github.com/pawl-dev/pawl/chain"
	"github.com/pawl-dev/pawl/fault"
	"github.com/pawl-dev/pawl/fdb"
	"github.com/pawl-dev/pawl/kube/api/fdb/v1beta2"
	"github.com/pawl-dev/pawl/kube/condition"
	"github.com/pawl-dev/pawl/operator/foundationdb"
	"github.com/pawl-dev/pawl/operator/foundationdb/port"
	"github.com/pawl-dev/pawl/outcome"
)

// startRestore starts a restore of which the database knows nothing, once no other one of the cluster runs.
func startRestore(p *pass) chain.Decision[*pass] {
	switch active := p.active(); {
	case p.begun() || p.refused != nil || p.silence != nil || p.cluster == nil:
		return chain.Decision[*pass]{}
	case !p.owned:
		return chain.Decision[*pass]{Outcome: outcome.Later(claimed, "TagClaimed", "the tag %s is claimed, and the restore starts in the next pass", p.tag)}
	case active != "":
		return chain.Decision[*pass]{Outcome: outcome.Later(p.options.Look, "AnotherRestore", "it starts when %s has ended", active)}
	case p.unavailable != "":
		return chain.Decision[*pass]{Outcome: outcome.Later(p.options.Look, "DatabaseUnavailable", "%s", p.unavailable)}
	}
	return chain.Decision[*pass]{Acts: []chain.Act[*pass]{{
		Name: "start restore", Targets: []string{p.tag}, Do: start,
		Assume: func(p *pass) {
			p.state = fdb.RestoreQueued
			p.observe()
		},
	}}}
}

// start starts the restore. After an unknown reply, and after one that refuses the tag as being in use, the line of the
// tag tells what has happened.
func start(ctx context.Context, p *pass) outcome.Outcome {
	p.asked = true
	r := p.run(ctx, &p.facts, fdb.StartRestore(p.described())).Result
	switch {
	case r.Outcome == fdb.Ok:
		p.state = fdb.RestoreQueued
		p.observe()
	case r.Outcome == fdb.Refused && r.Reason == fdb.RestoreTagInUse:
		return outcome.Later(retry, "ReplyUnknown", "start restore %s: %s", p.tag, r)
	case r.Outcome == fdb.Refused:
		why := foundationdb.Refusal("start restore "+p.tag, r)
		return outcome.Later(p.options.Idle, fault.Of(why).Reason(), "%s", condition.Message(why))
	default:
		return outcome.Later(retry, "ReplyUnknown", "start restore %s: it is not known whether it has happened: %s", p.tag, r)
	}
	return outcome.Done()
}

// described is the restore as the tools are told.
func (f *facts) described() fdb.Restore {
	s := f.restore.Spec
	r := fdb.Restore{Tag: f.tag, URL: f.url, EncryptionKeyPath: s.EncryptionKeyPath}
	for _, k := range s.KeyRanges {
		r.KeyRanges = append(r.KeyRanges, fdb.KeyRange{Start: k.Start, End: k.End})
	}
	if s.BackupVersion != nil {
		r.BackupVersion = new(uint64(*s.BackupVersion)) //nolint:gosec // validated: it is not negative
	}
	return r
}

// tell tells people what has become of the restore, once the status says so as well.
func (p *pass) tell() {
	s := p.restore.Status
	tell := func(reason, message string, warning bool) {
		p.objects.Tell(p.restore, port.Event{Reason: reason, Message: message, Warning: warning})
	}
	if p.before.StartedAt == nil && s.StartedAt != nil {
		tell("RestoreStarted", "the restore "+p.tag+" of "+p.url+" has begun", false)
	}
	if s.State != p.before.State {
		switch s.State {
		case v1beta2.RestoreState(fdb.RestoreCompleted):
			tell("RestoreCompleted", "the restore "+p.tag+" is complete", false)
		case v1beta2.RestoreState(fdb.RestoreAborted):
			tell("RestoreAborted", "the restore "+p.tag+" was aborted; what was restored stays", true)
		}
	}
}
