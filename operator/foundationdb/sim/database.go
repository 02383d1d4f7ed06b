package sim

import (
	"cmp"
	"context"
	"slices"
	"strings"

	"github.com/pawl-dev/pawl/fault"
	"github.com/pawl-dev/pawl/fdb"
	"github.com/pawl-dev/pawl/operator/foundationdb/port"
)

// tools are the tools of FoundationDB as one instance of the operator has them.
type tools struct {
	w     *World
	owner string
}

// have fails with port.ToolsMissing.
func (t *tools) have(v fdb.Version) error {
	if !slices.Contains(t.w.options.Tools, v.Short()) {
		return port.ToolsMissing.Errorf("there are no tools for %s, only for %v", v, t.w.options.Tools)
	}
	return nil
}

func toolless(err error) fdb.Result {
	return fdb.Result{Outcome: fdb.Refused, Reason: fdb.Reason(fault.Camel(port.ToolsMissing.Code)), Text: fault.Message(err)}
}

// Status reads the status document.
func (t *tools) Status(ctx context.Context, at port.Endpoint, limit port.Limit) (*fdb.Status, error) {
	t.w.hooks.count(t.owner, "Status", "")
	if err := t.have(at.Version); err != nil {
		return nil, err
	}
	if err := cmp.Or(ctx.Err(), t.w.hooks.alive(t.owner)); err != nil {
		return nil, port.DatabaseSilent.Errorf("the status was not read: %w", err)
	}
	call := fdb.ReadStatus()
	call.Timeout = fdb.LongCallTimeout
	if limit == port.Short {
		call.Timeout = fdb.CallTimeout
	}
	var a answer
	t.w.database.By(t.owner, func() { a = t.call(call, at) })
	if !strings.Contains(a.stdout, "{") {
		return nil, port.DatabaseSilent.Errorf("fdbcli has not told the status: %s", a.result)
	}
	return fdb.ParseStatus([]byte(a.stdout))
}

type answer struct {
	result fdb.Result
	stdout string
}

func (t *tools) call(call fdb.Call, at port.Endpoint) answer {
	a := t.w.database.Call(call, at.Version, at.Connection)
	return answer{fdb.Judge(call, at.Version, a.Exit, a.Stdout, a.Stderr), a.Stdout}
}

// Run runs one call.
func (t *tools) Run(ctx context.Context, at port.Endpoint, call fdb.Call) port.Answer {
	t.w.hooks.count(t.owner, "Run", string(call.Command))
	if err := t.have(at.Version); err != nil {
		return port.Answer{Result: toolless(err)}
	}
	if err := cmp.Or(ctx.Err(), t.w.hooks.alive(t.owner)); err != nil {
		return port.Answer{Result: fdb.Result{Outcome: fdb.Refused, Reason: fdb.ToolEnded, Text: err.Error()}}
	}
	call.Version, call.ClusterFile = at.Version, "/tmp/fdb.cluster"
	if call.Secrets != "" {
		call.BlobCredentials = "/tmp/blob-credentials.json"
	}
	var a answer
	err := t.w.hooks.effect(Effect{Owner: t.owner, Verb: "Run", Call: call}, func() error {
		if err := call.Check(); err != nil {
			a.result = fdb.Result{Outcome: fdb.Refused, Reason: fdb.CommandRefused, Text: err.Error()}
			return nil //nolint:nilerr // it is the answer
		}
		a = t.call(call, at)
		return nil
	})
	if err != nil {
		return port.Answer{Result: fdb.Result{Outcome: fdb.Unknown, Reason: fdb.ToolEnded, Text: err.Error()}}
	}
	return port.Answer{Result: a.result, Stdout: a.stdout}
}

// Transact runs one transaction.
func (t *tools) Transact(ctx context.Context, at port.Endpoint, read []fdb.Range, decide func(fdb.Values) ([]fdb.Write, error)) fdb.Result {
	t.w.hooks.count(t.owner, "Transact", "")
	if err := t.have(at.Version); err != nil {
		return toolless(err)
	}
	if err := cmp.Or(ctx.Err(), t.w.hooks.alive(t.owner)); err != nil {
		return fdb.Result{Outcome: fdb.Refused, Reason: fdb.ToolEnded, Text: err.Error()}
	}
	var result fdb.Result
	_, timeout := fdb.Transaction().Arguments()
	err := t.w.hooks.effect(Effect{Owner: t.owner, Verb: "Transact"}, func() error {
		result = t.w.database.Transact(fdb.NewDialogue(read, decide), at.Version, at.Connection, timeout)
		return nil
	})
	if err != nil {
		return fdb.Result{Outcome: fdb.Unknown, Reason: fdb.ToolEnded, Text: err.Error()}
	}
	return result
}

// Versions are the lines that there are tools for.
func (t *tools) Versions() []string { return slices.Clone(t.w.options.Tools) }
