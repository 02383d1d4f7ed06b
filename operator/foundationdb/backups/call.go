package backups

import (
	"context"
	"fmt"

	"github.com/pawl-dev/pawl/chain"
	"github.com/pawl-dev/pawl/fault"
	"github.com/pawl-dev/pawl/fdb"
	"github.com/pawl-dev/pawl/kube/condition"
	"github.com/pawl-dev/pawl/operator/foundationdb"
	"github.com/pawl-dev/pawl/operator/foundationdb/port"
	"github.com/pawl-dev/pawl/outcome"
)

// run runs one call with the parameters, the credentials and the trace settings of the backup.
func (o *Operator) run(ctx context.Context, f *facts, call fdb.Call) port.Answer {
	call.LogDir, call.LogGroup, call.TraceFormat = o.options.LogDir, o.options.LogGroup, o.options.TraceFormat
	var parameters []string
	for _, p := range f.backup.Spec.CustomParameters {
		parameters = append(parameters, string(p))
	}
	call.Knobs = fdb.BackupKnobs(parameters)
	switch call.Command {
	case fdb.CommandStartBackup, fdb.CommandModifyBackup, fdb.CommandDeleteBackup:
		call.Secrets = f.credentials
	}
	return o.database.Run(ctx, f.at, call)
}

// effect is a call that changes something.
type effect struct {
	name, target string // for the plan: "start backup", the tag
	call         fdb.Call
	event, told  string // of the object once it has happened
	assume       func(*pass)
	blocks       bool // nothing may follow until it has happened
}

// act is the act of an effect. What has happened already is as good as done; after an unknown reply the next reading
// tells.
func (e effect) act() chain.Act[*pass] {
	later := outcome.Later
	if e.blocks {
		later = outcome.Wait
	}
	return chain.Act[*pass]{Name: e.name, Targets: []string{e.target}, Assume: e.assume, Do: func(ctx context.Context, p *pass) outcome.Outcome {
		p.asked = true
		r := p.run(ctx, &p.facts, e.call).Result
		switch {
		case r.Outcome == fdb.Refused:
			why := foundationdb.Refusal(e.name+" "+e.target, r)
			return later(refusedWait, fault.Of(why).Reason(), "%s", condition.Message(why))
		case r.Outcome == fdb.Unknown:
			return later(retry, "ReplyUnknown", "%s %s: it is not known whether it has happened: %s", e.name, e.target, r)
		}
		switch r.Reason {
		case fdb.NoChange, fdb.AlreadyRunning, fdb.NotRunning:
			return outcome.Done()
		}
		told := e.told
		if r.Reason == fdb.NoAgents {
			told += "; no agent answers yet"
		}
		p.objects.Tell(p.backup, port.Event{Reason: e.event, Message: told})
		return outcome.Done()
	}}
}

// decided is the decision to have one effect.
func decided(e effect) chain.Decision[*pass] {
	return chain.Decision[*pass]{Acts: []chain.Act[*pass]{e.act()}}
}

// blocked is a link that is held up by a fault, and holds up no other.
func blocked(err error) chain.Decision[*pass] {
	return chain.Decision[*pass]{Outcome: outcome.Later(refusedWait, fault.Of(err).Reason(), "%s", condition.Message(err))}
}

// waits is a link behind which nothing is done.
func waits(err error) chain.Decision[*pass] {
	return chain.Decision[*pass]{Outcome: outcome.Wait(refusedWait, fault.Of(err).Reason(), "%s", condition.Message(err))}
}

func nothing() chain.Decision[*pass] { return chain.Decision[*pass]{} }

func (p *pass) told(reason, format string, args ...any) {
	p.objects.Tell(p.backup, port.Event{Reason: reason, Message: fmt.Sprintf(format, args...)})
}
